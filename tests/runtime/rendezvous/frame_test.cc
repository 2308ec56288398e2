#include "runtime/rendezvous/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "runtime/rendezvous/call_parcel.h"
#include "runtime/rendezvous/verdict_frame.h"
#include "runtime/rendezvous/wire.h"

namespace sluice {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

TEST(Frames, arrive_whole_however_they_are_cut) {
    std::vector<std::byte> stream;
    for (const std::string_view text : {"a", "", "some more words", "and the last ones"}) {
        const std::vector<std::byte> frame = frame_bytes(FrameKind::kCall, bytes_of(text));
        stream.insert(stream.end(), frame.begin(), frame.end());
    }
    for (std::size_t cut = 1; cut <= stream.size(); ++cut) {
        FrameReader reader;
        std::string read;
        for (std::size_t at = 0; at < stream.size(); at += cut) {
            reader.add(std::span(stream).subspan(at, std::min(cut, stream.size() - at)));
            while (const auto frame = reader.next()) {
                ASSERT_EQ(frame->kind, FrameKind::kCall);
                for (const std::byte b : frame->payload) read += static_cast<char>(b);
                read += '|';
            }
        }
        ASSERT_EQ(read, "a||some more words|and the last ones|") << "pieces of " << cut;
    }
}

std::string refusal_of(std::vector<std::byte> bytes) {
    FrameReader reader;
    reader.add(bytes);
    try {
        while (reader.next()) continue;
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

TEST(Frames, that_are_none_are_refused_at_their_header) {
    const std::vector<std::byte> good = frame_bytes(FrameKind::kHeartbeat, bytes_of("1234"));
    EXPECT_EQ(refusal_of(good), "");
    struct Case {
        std::size_t at;
        std::uint8_t value;
        std::string_view expected;
    };
    for (const Case& c : {Case{0, 'G', "what arrived is no message of sluice"},
                          Case{4, 2, "a message has version 2, expected 1: all processes run one version of sluice"},
                          Case{5, kFrameKinds, "a message has a kind that there is not"},
                          Case{6, 1, "a message has a kind that there is not"},
                          Case{10, 1, "a message of kind heartbeat has 65540 bytes, expected at most 16384"},
                          Case{15, 0x80,
                               "a message of kind heartbeat has 9223372036854775812 bytes, expected at most "
                               "16384"}}) {
        std::vector<std::byte> wrong = good;
        wrong[c.at] = std::byte{c.value};
        wrong.resize(kFrameHeader);  // the payload need not have come
        EXPECT_EQ(refusal_of(wrong), c.expected);
    }
    EXPECT_EQ(refusal_of(bytes_of("GET / HTTP/1.1\r\nHost: x\r\n")), "what arrived is no message of sluice");
}

TEST(Wire, refuses_what_is_cut_or_too_long) {
    WireWriter writer;
    writer.u8(7), writer.u32(70000), writer.u64(1ULL << 40), writer.text("two\nlines\xff");
    const std::vector<std::byte> bytes = writer.take();
    const auto read = [](std::span<const std::byte> from, std::size_t most) {
        WireReader reader(from);
        EXPECT_EQ(reader.u8(), 7);
        EXPECT_EQ(reader.u32(), 70000U);
        EXPECT_EQ(reader.u64(), 1ULL << 40);
        const std::string text = reader.text(most);
        reader.expect_end();
        return text;
    };
    EXPECT_EQ(read(bytes, 10), "two?lines?");  // one line, whatever was sent
    EXPECT_THROW(read(bytes, 9), InputError);
    EXPECT_THROW(read(std::span(bytes).first(bytes.size() - 1), 10), InputError);
    std::vector<std::byte> longer = bytes;
    longer.push_back(std::byte{0});
    EXPECT_THROW(read(longer, 10), InputError);
}

TEST(Wire, verdicts_and_parcels_come_back_as_they_went) {
    const JobVerdict verdict = decode_verdict(encode(JobVerdict{FailureKind::kInternal, "rank 3: op 12: it broke"}));
    EXPECT_EQ(verdict.kind, FailureKind::kInternal);
    EXPECT_EQ(verdict.line, "rank 3: op 12: it broke");
    EXPECT_LT(encode(JobVerdict{FailureKind::kInput, std::string(100000, 'x')}).size(), kLargestNotice);
    const CallParcel parcel = decode_call_parcel(encode(CallParcel{5, "findings", true, bytes_of("abc")}));
    EXPECT_EQ(parcel.call, 5U);
    EXPECT_EQ(parcel.what, "findings");
    EXPECT_TRUE(parcel.more);
    EXPECT_EQ(parcel.piece, bytes_of("abc"));
}

}  // namespace
}  // namespace sluice

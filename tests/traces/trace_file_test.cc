#include "traces/trace_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "example_trace.h"
#include "golden_file.h"
#include "random_trace.h"
#include "tests/support/temporary_folder.h"
#include "trace_builder.h"
#include "traces/trace.pb.h"
#include "traces/trace_check.h"

namespace sluice {
namespace {

std::string written(const Trace& trace) {
    std::ostringstream out;
    write_trace(out, trace);
    return out.str();
}

std::string refusal(std::string_view bytes) {
    try {
        parse_trace(bytes, "t");
    } catch (const InputError& e) {
        return e.what();
    }
    return "accepted";
}

TEST(TraceFile, RoundTripsRandomTraces) {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        const Trace trace = random_trace(seed, {.ranks = 1 + seed % 5, .tasks = std::size_t{3} * seed});
        ASSERT_EQ(check_trace(trace), "") << "seed " << seed;
        const std::string bytes = written(trace);
        EXPECT_TRUE(parse_trace(bytes, "t") == trace) << "seed " << seed;
        EXPECT_TRUE(written(parse_trace(bytes, "t")) == bytes) << "seed " << seed;
    }
}

TEST(TraceFile, RoundTripsManyChunks) {
    const Trace trace = random_trace(7, {.ranks = 4, .tasks = 50'000});
    ASSERT_GT(trace.events.size(), 3 * 16384U);
    ASSERT_GT(trace.kernels.size(), 16384U);
    EXPECT_TRUE(parse_trace(written(trace), "t") == trace);
}

TEST(TraceFile, KeepsOddValues) {
    TraceBuilder t;
    t.lane(0xfffffffeU, LaneRole::kCompute);
    t.op(0, std::numeric_limits<double>::denorm_min(), 1.0 / 3);
    t.event(OpId{0}).op = OpId{0xfffffffeU};
    t.op(0, std::nextafter(1.0 / 3, 1), 0.7);
    t.event(OpId{1}).op = OpId{0xfffffffeU};
    t.event(OpId{0}).op = OpId{5};
    t.event(OpId{0}).blocker = OpId{0xfffffffdU};
    t.event(OpId{0}).wait = Wait::kMatch;
    t.event(OpId{1}).blocker = OpId{0};
    t.event(OpId{1}).wait = Wait::kReuse;
    t.event(OpId{1}).bytes = Bytes{std::int64_t{1} << 62};
    t.event(OpId{1}).stage = t.event(OpId{1}).part = std::numeric_limits<std::int32_t>::max();
    t.event(OpId{1}).flow = 0xffffffffU;
    t.label("Übertragung \"\n\x01");
    t.label("");
    t.pool(true, 0xffffffffU, 1_B);
    t.trace.step = kMaxTraceTime;
    EXPECT_TRUE(parse_trace(written(t.trace), "t") == t.trace);
    EXPECT_TRUE(parse_trace(written(Trace{}), "t") == Trace{});
}

TEST(TraceFile, StaysReadable) { expect_golden("example.sltrace", written(example_trace())); }

TEST(TraceFile, RoundTripsThroughAFile) {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "a.sltrace";
    const Trace trace = random_trace(3);
    write_trace(path, trace);
    EXPECT_TRUE(read_trace(path) == trace);
    EXPECT_EQ(read_file(path, 1_GiB), written(trace));
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    EXPECT_THROW(read_trace(path), InputError);
    std::filesystem::remove(path);
    EXPECT_THROW(read_trace(path), InputError);
    EXPECT_THROW(read_trace(folder.path()), InputError);
    EXPECT_THROW(write_trace(path / "no folder", trace), EnvironmentError);
}

TEST(TraceFile, IsNotWrittenWhenItBreaksItsRules) {
    Trace trace = example_trace();
    trace.events[3].end = Seconds{1};
    EXPECT_THROW(written(trace), InternalError);
}

// ---- Hostile files: the example's, taken apart, changed and put together again
// ---------------------------------------

struct Parts {
    proto::TraceChunk header, events, kernels, memory;
};

void append_chunk(std::string& bytes, const std::string& chunk) {
    ASSERT_LT(chunk.size(), 1U << 14);
    if (chunk.size() >= 128) bytes += static_cast<char>((chunk.size() & 0x7F) | 0x80);
    bytes += static_cast<char>(chunk.size() >= 128 ? chunk.size() >> 7 : chunk.size());
    bytes += chunk;
}

Parts taken_apart(const std::string& bytes) {
    Parts parts;
    std::size_t at = 8;
    for (proto::TraceChunk* chunk : {&parts.header, &parts.events, &parts.kernels, &parts.memory}) {
        std::size_t length = static_cast<unsigned char>(bytes[at++]);
        if (length >= 128)
            length = (length & 0x7F) | static_cast<std::size_t>(static_cast<unsigned char>(bytes[at++])) << 7;
        EXPECT_TRUE(chunk->ParseFromString(bytes.substr(at, length)));
        at += length;
    }
    EXPECT_EQ(at, bytes.size());
    return parts;
}

std::string put_together(const Parts& parts) {
    std::string bytes = "SLTRACE\n";
    for (const proto::TraceChunk* chunk : {&parts.header, &parts.events, &parts.kernels, &parts.memory})
        append_chunk(bytes, chunk->SerializeAsString());
    return bytes;
}

struct HostileCase {
    const char* what;   // the whole message after the place
    const char* place;  // the chunk: header, events, kernels, memory, end
    void (*change)(Parts&);
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

proto::TraceHeader& header(Parts& p) { return *p.header.mutable_header(); }
proto::TraceEvents& events(Parts& p) { return *p.events.mutable_events(); }
proto::TraceKernels& kernels(Parts& p) { return *p.kernels.mutable_kernels(); }
proto::TraceMemory& memory(Parts& p) { return *p.memory.mutable_memory(); }

// The example has 13 events, 3 kernels, 5 samples, 8 lanes, 6 labels, 2 pools and a step of 10 s.
const HostileCase kHostileCases[] = {
    // The header.
    {"trace format version 2, expected 1", "header", [](Parts& p) { header(p).set_version(2); }},
    {"expected the header as the first chunk", "header", [](Parts& p) { std::swap(p.header, p.events); }},
    {"step of nan s, expected 0 to 1000000000 s", "header", [](Parts& p) { header(p).set_step(kNan); }},
    {"step of inf s, expected 0 to 1000000000 s", "header", [](Parts& p) { header(p).set_step(kInfinity); }},
    {"step of -1 s, expected 0 to 1000000000 s", "header", [](Parts& p) { header(p).set_step(-1); }},
    {"label 1: 'forward' is there twice", "header", [](Parts& p) { header(p).set_labels(1, "forward"); }},
    {"label 1: is not UTF-8", "header", [](Parts& p) { header(p).set_labels(1, "\xff"); }},
    {"provenance: text is not UTF-8", "header",
     [](Parts& p) { header(p).mutable_provenance()->set_omissions(0, "\xc0"); }},
    {"lanes: columns of different lengths", "header", [](Parts& p) { header(p).mutable_lanes()->add_peer(0); }},
    {"lane 0: unknown role 9", "header",
     [](Parts& p) { header(p).mutable_lanes()->set_role(0, static_cast<proto::TraceLaneRole>(9)); }},
    {"lane 1: not sorted by rank, role and peer, or there twice", "header",
     [](Parts& p) { header(p).mutable_lanes()->set_role(1, proto::TRACE_LANE_COMPUTE); }},
    {"lane 3: a send or receive lane without a peer", "header",
     [](Parts& p) { header(p).mutable_lanes()->set_peer(3, 0); }},
    {"lane 0: a peer on a lane that has none", "header", [](Parts& p) { header(p).mutable_lanes()->set_peer(0, 1); }},
    {"pools: columns of different lengths", "header", [](Parts& p) { header(p).mutable_pools()->add_arena(1); }},
    {"pools: too few kinds", "header", [](Parts& p) { header(p).mutable_pools()->set_kind_count(0, 0xffffffffU); }},
    {"pools: too many kinds", "header", [](Parts& p) { header(p).mutable_pools()->set_kind_count(0, 0); }},
    {"pool 1: a second pool of rank 0", "header", [](Parts& p) { header(p).mutable_pools()->set_host(1, false); }},
    {"pool 0: peak at nan s, expected 0 to 10 s", "header",
     [](Parts& p) { header(p).mutable_pools()->set_peak_time(0, kNan); }},
    {"pool 0: kind label 6, there are 6", "header", [](Parts& p) { header(p).mutable_pools()->set_kind_label(1, 6); }},
    {"pool 0: kinds not sorted by label, or one there twice", "header",
     [](Parts& p) { header(p).mutable_pools()->set_kind_label(1, 4); }},
    {"pool 0: 4611686018427387904 bytes of kind 5, after 1048576 of others", "header",
     [](Parts& p) { header(p).mutable_pools()->set_kind_bytes(1, std::int64_t{1} << 62); }},
    {"pool 0: negative bytes", "header", [](Parts& p) { header(p).mutable_pools()->set_capacity(0, -1); }},
    {"header: columns of different lengths", "header",
     [](Parts& p) { header(p).mutable_provenance()->add_version_names("x"); }},
    // Counts.
    {"13 events, 3 kernels and 5 memory samples, the header promises 12, 3 and 5: the file is truncated or damaged",
     "end", [](Parts& p) { header(p).set_event_count(12); }},
    {"13 events, 3 kernels and 5 memory samples, the header promises 13, 4 and 5: the file is truncated or damaged",
     "end", [](Parts& p) { header(p).set_kernel_count(4); }},
    // Events.
    {"a second header", "kernels", [](Parts& p) { p.kernels = p.header; }},
    {"chunks out of order: expected events, then kernels, then memory", "memory",
     [](Parts& p) { std::swap(p.kernels, p.memory); }},
    {"a chunk of unknown content", "kernels", [](Parts& p) { p.kernels.Clear(); }},
    {"events: columns of different lengths", "events", [](Parts& p) { events(p).mutable_flow()->RemoveLast(); }},
    {"event 2: op 1 after op 1: not ordered by op, or there twice", "events",
     [](Parts& p) { events(p).set_op(2, 0), events(p).set_blocker(2, 0); }},
    {"event 2: op 0 after op 1: not ordered by op, or there twice", "events",
     [](Parts& p) { events(p).set_op(2, 0xffffffffU), events(p).set_blocker(2, 0); }},
    {"event 0: has no op", "events", [](Parts& p) { events(p).set_op(0, 0), events(p).set_blocker(0, 0); }},
    {"event 4: lane 8, there are 8", "events", [](Parts& p) { events(p).set_lane(4, 8); }},
    {"event 4: label 6, there are 6", "events", [](Parts& p) { events(p).set_label(4, 6); }},
    {"event 1: ends at 1 s, before it begins at 2 s", "events", [](Parts& p) { events(p).set_end(1, 1); }},
    {"event 1: runs from nan s to 4 s, expected 0 to 10 s, the step", "events",
     [](Parts& p) { events(p).set_begin(1, kNan); }},
    {"event 1: runs from 2 s to inf s, expected 0 to 10 s, the step", "events",
     [](Parts& p) { events(p).set_end(1, kInfinity); }},
    {"event 1: runs from -2 s to 4 s, expected 0 to 10 s, the step", "events",
     [](Parts& p) { events(p).set_begin(1, -2); }},
    {"event 4: begins at 1 s while its lane 0 is busy until 2 s", "events",
     [](Parts& p) { events(p).set_begin(4, 1); }},
    {"event 1: its blocker is no op id", "events", [](Parts& p) { events(p).set_blocker(1, 2); }},
    {"event 1: its blocker is no op id", "events",
     [](Parts& p) { events(p).set_blocker(1, 1 - std::int64_t{0xffffffff}); }},
    {"event 0: a wait needs a blocker and a blocker a wait", "events", [](Parts& p) { events(p).set_blocker(0, -1); }},
    {"event 1: a wait needs a blocker and a blocker a wait", "events", [](Parts& p) { events(p).set_blocker(1, 0); }},
    {"event 1: unknown wait 77", "events", [](Parts& p) { events(p).set_wait(1, static_cast<proto::TraceWait>(77)); }},
    {"event 1: a negative stage, layer, subsequence or part", "events", [](Parts& p) { events(p).set_layer(1, -2); }},
    {"event 1: -5 bytes, after 0 in the events before", "events", [](Parts& p) { events(p).set_bytes(1, -5); }},
    // Kernels.
    {"kernels: columns of different lengths", "kernels", [](Parts& p) { kernels(p).add_count(1); }},
    {"kernel 2: event 13, there are 13", "kernels", [](Parts& p) { kernels(p).set_event(2, 13); }},
    {"kernel 1: label 6, there are 6", "kernels", [](Parts& p) { kernels(p).set_label(1, 6); }},
    {"kernel 1: count 0, expected at least 1", "kernels", [](Parts& p) { kernels(p).set_count(1, 0); }},
    {"kernel 1: runs from 1.5 s to 3 s, expected a span inside its event 0, 0 to 2 s", "kernels",
     [](Parts& p) { kernels(p).set_end(1, 3); }},
    {"kernel 1: runs from nan s to 2 s, expected a span inside its event 0, 0 to 2 s", "kernels",
     [](Parts& p) { kernels(p).set_begin(1, kNan); }},
    {"kernel 1: runs from 1.5 s to 1 s, expected a span inside its event 0, 0 to 2 s", "kernels",
     [](Parts& p) { kernels(p).set_end(1, 1); }},
    {"kernel 1: begins at 1 s, before the kernel before it ends at 1.5 s", "kernels",
     [](Parts& p) { kernels(p).set_begin(1, 1); }},
    {"kernel 1: event 4294967295, there are 13", "kernels", [](Parts& p) { kernels(p).set_event(1, 0xffffffffU); }},
    // Memory.
    {"memory: columns of different lengths", "memory", [](Parts& p) { memory(p).add_live(1); }},
    {"memory sample 0: pool 2, there are 2", "memory", [](Parts& p) { memory(p).set_pool(0, 2); }},
    {"memory sample 1: at inf s, expected 0 to 10 s, the step", "memory",
     [](Parts& p) { memory(p).set_time(1, kInfinity); }},
    {"memory sample 1: not ordered by pool and time", "memory", [](Parts& p) { memory(p).set_time(0, 3); }},
    {"memory sample 1: negative bytes", "memory", [](Parts& p) { memory(p).set_live(1, -1); }},
};

std::size_t place_of(const Parts& parts, const std::string& chunk) {
    std::string before = "SLTRACE\n";
    const std::pair<const char*, const proto::TraceChunk*> order[] = {
        {"header", &parts.header}, {"events", &parts.events}, {"kernels", &parts.kernels}, {"memory", &parts.memory}};
    for (const auto& [name, content] : order) {
        if (chunk == name) break;
        append_chunk(before, content->SerializeAsString());
    }
    return before.size();
}

TEST(TraceFile, RefusesWhatIsNotATraceInOneLine) {
    const Parts good = taken_apart(written(example_trace()));
    ASSERT_EQ(refusal(put_together(good)), "accepted");
    for (const HostileCase& c : kHostileCases) {
        Parts parts = good;
        c.change(parts);
        const std::string place = "t: byte " + std::to_string(place_of(parts, c.place)) + ": ";
        EXPECT_EQ(refusal(put_together(parts)), place + c.what);
    }
}

TEST(TraceFile, RefusesEveryTruncation) {
    const std::string bytes = written(example_trace());
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        const std::string message = refusal(std::string_view(bytes).substr(0, length));
        EXPECT_TRUE(message.starts_with("t: byte ")) << length << ": " << message;
        EXPECT_EQ(message.find('\n'), std::string::npos);
    }
    EXPECT_EQ(refusal(""), "t: byte 0: too short for a Sluice trace");
    EXPECT_EQ(refusal("PK\x03\x04 something"), "t: byte 0: not a Sluice trace: expected it to begin with \"SLTRACE\"");
    EXPECT_EQ(refusal("SLTRACE\n"), "t: byte 8: truncated before the header");
    EXPECT_EQ(refusal("SLTRACE\n\xff\xff\xff\xff\xff\xff\xff"), "t: byte 8: a damaged chunk length");
    EXPECT_EQ(refusal("SLTRACE\n\x80"), "t: byte 8: truncated in the length of a chunk");
    EXPECT_EQ(refusal("SLTRACE\n\x05xx"),
              "t: byte 8: a chunk of 5 bytes, 2 are left: the file is truncated or damaged");
    EXPECT_EQ(refusal("SLTRACE\n\x02\xff\xff"), "t: byte 8: a damaged chunk");
}

// Room is made only for what can be there.
TEST(TraceFile, RefusesCountsThatTheFileHasNoRoomFor) {
    for (const std::uint64_t count : {std::uint64_t{1} << 33, ~std::uint64_t{0}, std::uint64_t{40}}) {
        Parts parts = taken_apart(written(example_trace()));
        header(parts).set_event_count(count);
        const std::string message = refusal(put_together(parts));
        EXPECT_NE(message.find("cannot follow in"), std::string::npos) << message;
    }
}

TEST(TraceFile, RefusesTextThatIsNotUtf8) {
    for (const char* text : {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82", "ab\xff"}) {
        Trace trace = example_trace();
        trace.labels[0] = text;
        EXPECT_EQ(check_trace(trace), "label 0: is not UTF-8");
        trace = example_trace();
        trace.provenance.scenario = text;
        EXPECT_EQ(check_trace(trace), "provenance: text is not UTF-8");
    }
    Trace trace = example_trace();
    trace.labels[0] = "aé€😀\x7f";
    EXPECT_EQ(check_trace(trace), "");
}

}  // namespace
}  // namespace sluice

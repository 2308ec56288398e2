// Any bytes from a connection: frames whose payload is bounded, and whose content is read or refused in one line; the
// same frames however the bytes are cut.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "runtime/rendezvous/call_list.h"
#include "runtime/rendezvous/call_parcel.h"
#include "runtime/rendezvous/frame.h"
#include "runtime/rendezvous/verdict_frame.h"

namespace {

void expect_one_line(std::string_view text) {
    if (text.find('\n') != std::string_view::npos) std::abort();
}

template <class Read>
void read_or_refuse(const Read& read) {
    try {
        read();
    } catch (const sluice::InputError& error) {
        expect_one_line(error.what());
    }
}

void read_content(const sluice::Frame& frame) {
    if (frame.payload.size() > sluice::kLargestPayload) std::abort();
    read_or_refuse([&] { expect_one_line(sluice::decode_verdict(frame.payload).line); });
    read_or_refuse([&] { expect_one_line(sluice::decode_call_parcel(frame.payload).what); });
    read_or_refuse([&] { sluice::call_difference(sluice::decode_call_lists(frame.payload)); });
}

std::size_t frames_in(std::span<const std::byte> bytes, std::size_t piece, bool look) {
    sluice::FrameReader reader;
    std::size_t count = 0;
    read_or_refuse([&] {
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            reader.add(bytes.subspan(at, std::min(piece, bytes.size() - at)));
            while (const auto frame = reader.next()) {
                ++count;
                if (look) read_content(*frame);
            }
        }
    });
    return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
    if (frames_in(bytes, bytes.size() + 1, true) != frames_in(bytes, 7, false)) std::abort();
    return 0;
}

// What goes over a connection between processes: frames of a kind and a payload. Hostile until parsed.
//
//   magic "SLUC", version 1, kind, two zero bytes, length of the payload (u64), payload
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice {

enum class FrameKind : std::uint8_t {
    kHello,      // to process 0: who I am, and of which job
    kWelcome,    // all are there
    kRefusal,    // you do not belong here, and why
    kCall,       // a part of a broadcast, gather or barrier
    kProgress,   // to process 0, as a heartbeat
    kHeartbeat,  // from process 0
    kClock,      // what does your clock say?
    kClockIs,
    kFailure,   // to process 0: something has failed here
    kStop,      // from process 0: a process has failed; say what you were doing, and end
    kInFlight,  // to process 0: what I was doing
    kVerdict,   // from process 0: the one line that all end with
    kLeave,     // I am done, and did not fail
};
inline constexpr std::uint8_t kFrameKinds = 13;
std::string_view name(FrameKind);

struct Frame {
    FrameKind kind = FrameKind::kHello;
    std::vector<std::byte> payload;
};

inline constexpr std::size_t kFrameHeader = 16;
// Larger things go in several calls.
inline constexpr std::size_t kLargestPayload = std::size_t{8} << 20;
// Of everything that is no call.
inline constexpr std::size_t kLargestNotice = std::size_t{16} << 10;

std::vector<std::byte> frame_bytes(FrameKind kind, std::span<const std::byte> payload);

// Puts frames together from bytes as they come. Takes no memory for what has not arrived.
class FrameReader {
public:
    void add(std::span<const std::byte> bytes);
    // The next whole frame. Throws InputError at the header of what is no frame, or is a longer one than its kind
    // may be; nothing can be read after that.
    std::optional<Frame> next();

private:
    std::vector<std::byte> bytes_;
    std::size_t begin_ = 0;  // of what has not been returned
};

}  // namespace sluice

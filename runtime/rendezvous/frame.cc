#include "runtime/rendezvous/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "runtime/rendezvous/wire.h"

namespace sluice {
namespace {

constexpr std::uint32_t kMagic = 0x43554c53;  // "SLUC"
constexpr std::uint8_t kVersion = 1;

struct Header {
    FrameKind kind;
    std::size_t length;
};

Header read_header(std::span<const std::byte> bytes) {
    WireReader reader(bytes.first(kFrameHeader));
    if (reader.u32() != kMagic) throw InputError("what arrived is no message of sluice");
    if (const std::uint8_t version = reader.u8(); version != kVersion)
        throw InputError(fmt::format("a message has version {}, expected {}: all processes run one version of sluice",
                                     version, kVersion));
    const std::uint8_t kind = reader.u8();
    const bool padded = reader.u8() == 0 && reader.u8() == 0;
    const std::uint64_t length = reader.u64();
    if (kind >= kFrameKinds || !padded) throw InputError("a message has a kind that there is not");
    const Header header{static_cast<FrameKind>(kind), static_cast<std::size_t>(length)};
    const std::size_t most = header.kind == FrameKind::kCall ? kLargestPayload : kLargestNotice;
    if (length > most)
        throw InputError(
            fmt::format("a message of kind {} has {} bytes, expected at most {}", name(header.kind), length, most));
    return header;
}

}  // namespace

std::string_view name(FrameKind kind) {
    static constexpr std::array<std::string_view, kFrameKinds> kNames = {
        "hello",    "welcome", "refusal", "call",      "progress", "heartbeat", "clock",
        "clock_is", "failure", "stop",    "in_flight", "verdict",  "leave"};
    return kNames[static_cast<std::size_t>(kind)];
}

std::vector<std::byte> frame_bytes(FrameKind kind, std::span<const std::byte> payload) {
    SLUICE_CHECK(payload.size() <= (kind == FrameKind::kCall ? kLargestPayload : kLargestNotice),
                 "larger things go in several messages");
    WireWriter writer;
    writer.u32(kMagic);
    writer.u8(kVersion);
    writer.u8(static_cast<std::uint8_t>(kind));
    writer.u8(0), writer.u8(0);
    writer.u64(payload.size());
    std::vector<std::byte> bytes = writer.take();
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
}

void FrameReader::add(std::span<const std::byte> bytes) {
    if (begin_ > 0 && begin_ >= bytes_.size() - begin_) {  // the rest is the smaller part: moving it is cheap
        bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(begin_));
        begin_ = 0;
    }
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::optional<Frame> FrameReader::next() {
    const std::span<const std::byte> left = std::span(bytes_).subspan(begin_);
    if (left.size() < kFrameHeader) return std::nullopt;
    const Header header = read_header(left);
    if (left.size() - kFrameHeader < header.length) return std::nullopt;
    const std::span<const std::byte> payload = left.subspan(kFrameHeader, header.length);
    begin_ += kFrameHeader + header.length;
    return Frame{header.kind, {payload.begin(), payload.end()}};
}

}  // namespace sluice

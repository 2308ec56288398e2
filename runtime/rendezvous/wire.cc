#include "runtime/rendezvous/wire.h"

#include <fmt/format.h>

#include "base/error.h"

namespace sluice {

void WireWriter::number(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
}

void WireWriter::text(std::string_view value) { bytes(std::as_bytes(std::span(value))); }

void WireWriter::bytes(std::span<const std::byte> value) {
    u64(value.size());
    bytes_.insert(bytes_.end(), value.begin(), value.end());
}

std::span<const std::byte> WireReader::take(std::size_t count) {
    if (count > bytes_.size())
        throw InputError(fmt::format("a message ends early: got {} bytes, expected {}", bytes_.size(), count));
    const std::span<const std::byte> taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
}

std::uint64_t WireReader::number(std::size_t count) {
    std::uint64_t value = 0;
    const std::span<const std::byte> taken = take(count);
    for (std::size_t i = 0; i < count; ++i) value |= std::to_integer<std::uint64_t>(taken[i]) << (8 * i);
    return value;
}

std::string WireReader::text(std::size_t most) {
    std::string value;
    for (const std::byte byte : bytes(most)) {
        const char c = static_cast<char>(byte);
        value += c >= ' ' && c <= '~' ? c : '?';
    }
    return value;
}

std::span<const std::byte> WireReader::bytes(std::size_t most) {
    const std::uint64_t length = u64();
    if (length > most)
        throw InputError(
            fmt::format("a part of a message is too long: got {} bytes, expected at most {}", length, most));
    return take(static_cast<std::size_t>(length));
}

void WireReader::expect_end() const {
    if (!bytes_.empty()) throw InputError(fmt::format("a message is too long: {} bytes are left over", bytes_.size()));
}

}  // namespace sluice

// Numbers and texts of messages between processes: little-endian, texts and bytes behind their length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

class WireWriter {
public:
    void u8(std::uint8_t value) { bytes_.push_back(std::byte{value}); }
    void u32(std::uint32_t value) { number(value, 4); }
    void u64(std::uint64_t value) { number(value, 8); }
    void text(std::string_view value);
    void bytes(std::span<const std::byte> value);

    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    void number(std::uint64_t value, int count);

    std::vector<std::byte> bytes_;
};

// Of what somebody else wrote: everything that ends early, is longer than allowed, or has something left over is an
// InputError. Refers to the bytes.
class WireReader {
public:
    explicit WireReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
    std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
    std::uint64_t u64() { return number(8); }
    // At most `most` bytes; what is no printable ASCII becomes '?', so that a text can be put into a line.
    std::string text(std::size_t most);
    std::span<const std::byte> bytes(std::size_t most);
    void expect_end() const;

private:
    std::uint64_t number(std::size_t count);
    std::span<const std::byte> take(std::size_t count);

    std::span<const std::byte> bytes_;
};

}  // namespace sluice

// A 64-bit FNV-1a fingerprint: tells whether two files are the same, in provenance. Not cryptographic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

constexpr std::uint64_t fingerprint(std::string_view bytes, std::uint64_t seed = 0xcbf29ce484222325ULL) {
    for (const char c : bytes) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return seed;
}

std::string fingerprint_hex(std::uint64_t value);  // 16 lower-case hex digits

}  // namespace sluice

// One piece of what a process brings to a call of Rendezvous, as it goes over a connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/rendezvous/frame.h"

namespace sluice {

struct CallParcel {
    std::uint64_t call = 0;  // rounds of this process so far
    std::string what;
    bool more = false;  // other pieces of the same call follow
    std::vector<std::byte> piece;
};
inline constexpr std::size_t kLongestWhat = 200;
inline constexpr std::size_t kLargestPiece = kLargestPayload - 4096;

std::vector<std::byte> encode(const CallParcel& parcel);
CallParcel decode_call_parcel(std::span<const std::byte> payload);  // throws InputError

}  // namespace sluice

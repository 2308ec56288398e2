// Dense strong ids: id == index into the vector that holds the thing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

enum class OpId : std::uint32_t {};
enum class BufferId : std::uint32_t {};
enum class GroupId : std::uint32_t {};
enum class HostId : std::uint32_t {};
enum class Rank : std::uint32_t {};  // one GPU and the process or thread that drives it

inline constexpr OpId kNoOp{0xffffffffU};
inline constexpr BufferId kNoBuffer{0xffffffffU};
inline constexpr Rank kNoRank{0xffffffffU};

template <class Id>
constexpr std::size_t index(Id id) {
    return static_cast<std::size_t>(id);
}

template <class Id>
constexpr Id id_at(std::size_t i) {
    return static_cast<Id>(static_cast<std::uint32_t>(i));
}

}  // namespace sluice

// A random order of any number of things, without a table and the same on every machine.
#pragma once

#include <cstdint>

namespace sluice {

// The place of item `index` in order `key`: for each key a permutation of 0 .. count - 1. Requires: 0 <= index < count.
//
// A Feistel network of six rounds over the smallest even number of bits that holds count - 1; its round function is the
// finaliser of SplitMix64 over half, round and key. What falls outside 0 .. count - 1 goes through again (cycle
// walking, at most four times as many values as items). Mixes well; not for cryptography, nor uniform over all count!
// orders.
std::int64_t shuffled_index(std::int64_t index, std::int64_t count, std::uint64_t key);

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014, constants of Vigna's splitmix64.c), a bijection of 64 bits.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
}

}  // namespace sluice

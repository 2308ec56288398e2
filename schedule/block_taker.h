// Visits the blocks of accesses, each block once.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

#include "schedule/schedule.h"

namespace sluice {

// Hands out every block once: to the first op that asks for a range with it. Blocks already taken are skipped over, so
// that attention over 0..i costs one step per op, not i.
class BlockTaker {
public:
    // Blocks are numbered through all buffers; those of a buffer begin at first[buffer]. Refers to `first`.
    BlockTaker(const std::vector<std::size_t>& first, std::size_t blocks) : first_(first), next_(blocks + 1) {
        std::iota(next_.begin(), next_.end(), std::size_t{0});
    }

    template <class Visit>
    void take(const Access& access, Visit visit) {
        const std::size_t base = first_[index(access.buffer)];
        const std::size_t end = base + access.last_block + 1;
        for (std::size_t b = untaken(base + access.first_block); b < end; b = untaken(b)) {
            next_[b] = b + 1;
            visit(b);
        }
    }

private:
    std::size_t untaken(std::size_t b) {
        while (next_[b] != b) {
            next_[b] = next_[next_[b]];
            b = next_[b];
        }
        return b;
    }

    const std::vector<std::size_t>& first_;
    std::vector<std::size_t> next_;
};

}  // namespace sluice

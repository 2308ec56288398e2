// What a copy op moves, byte range by byte range.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/rank_arenas.h"
#include "schedule/schedule.h"

namespace sluice {

struct CopyPiece {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
};

// The bytes that the op reads, one access after the other, go to the bytes that it writes. Throws InputError unless it
// reads, writes and copies the same number of bytes. Requires: an op whose work is a copy.
std::vector<CopyPiece> copy_pieces(const Op& op, const RankArenas& arenas);

}  // namespace sluice

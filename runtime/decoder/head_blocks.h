// How rows of tokens lie that are exchanged for heads (Ulysses, Jacobs et al. 2023): one block per member of the group,
// one behind the other, on both sides of an all-to-all.
//
//   rows   [member][own token][head of that member]   a rank's tokens, all heads, sorted by whose heads they are
//   heads  [member][token of that member][own head]   all tokens, a rank's heads: just (tokens, own heads)
//
// Block j of member i becomes block i of member j, as it is. Nobody sorts anything: a product with a weight matrix
// makes or reads rows block by block, since the outputs (or inputs) of a member's heads are rows (or columns) of the
// matrix that lie together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/matrix_view.h"

namespace sluice {

template <class Element>
struct HeadBlocksOf {
    Element* data = nullptr;
    std::int64_t members = 1;
    std::int64_t rows = 0, width = 0;  // of one block

    std::int64_t size() const { return members * rows * width; }
    BasicMatrixView<Element> of(std::int64_t member) const { return {data + member * rows * width, rows, width}; }
};
using HeadBlocks = HeadBlocksOf<float>;

// What is exchanged, by member. Requires: a multiple of `members` elements.
template <class Element>
std::vector<std::span<Element>> exchanged_parts(std::span<Element> all, std::int64_t members) {
    const std::size_t part = all.size() / static_cast<std::size_t>(members);
    std::vector<std::span<Element>> parts;
    for (std::size_t at = 0; at < all.size(); at += part) parts.push_back(all.subspan(at, part));
    return parts;
}

}  // namespace sluice

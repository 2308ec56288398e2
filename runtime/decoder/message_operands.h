// What a collective, a send or a receive works on: its bytes among the op's accesses, whatever elements they are and
// wherever the memory is.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/decoder/operands.h"
#include "runtime/decoder/rank_context.h"

namespace sluice {

// The rank's part, and the whole of which it is one: of an all-gather what it brings and what it gets, of a
// reduce-scatter what it gets and the sums that it brings. A part is a shard's rows; `element` bytes is the size of an
// element of the stream. Throws InputError as OpBytes does.
struct PartAndWhole {
    std::span<std::byte> part, whole;
};
PartAndWhole gathered_bytes(const RankSizes&, const Op&, std::size_t element);
PartAndWhole scattered_bytes(const RankSizes&, const Op&);

// A tensor before and after an all-to-all; both in blocks by member. Queries and what is like them come first, then
// keys with values.
struct ExchangedBytes {
    std::span<std::byte> out, in;
};
std::vector<ExchangedBytes> exchanged_bytes(const RankSizes&, const Op&, std::size_t element);

// Is the collective one by which replicas share something out, in place and in pieces: a reduce-scatter of gradients,
// an all-gather of weights? If so, the pieces: every one is cut into shares of the members (member_share.h).
bool shares_out(const Op&);
std::vector<std::span<std::byte>> shared_bytes(const RankSizes&, const Op&, std::size_t element);

// What an all-reduce sums: fp32 gradients in pieces, or, of function gradient_norm, one double.
std::vector<std::span<std::byte>> reduced_bytes(const RankSizes&, const Op&);

// What a send or a receive moves.
std::span<std::byte> transferred_bytes(const RankSizes&, const Op&);

}  // namespace sluice

#include "runtime/data/sequence_stream.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "runtime/data/shuffled_index.h"

namespace sluice {

SequenceStream::SequenceStream(TokenSource source, SequenceOrder order) : source_(std::move(source)), order_(order) {
    SLUICE_CHECK(order.length.value > 0, "a sequence has tokens");
    per_epoch_ = (source_.tokens().value - 1) / order.length.value;
    if (per_epoch_ < 1)
        throw InputError(
            fmt::format("{}: {} tokens, expected at least {} for one sequence of {} tokens and the target of its last",
                        source_.name(), source_.tokens().value, order.length.value + 1, order.length.value));
}

SequencePlace SequenceStream::place(std::int64_t sequence) const {
    SLUICE_CHECK(sequence >= 0, "sequences are counted from 0");
    const std::int64_t epoch = sequence / per_epoch_;
    std::int64_t k = sequence % per_epoch_;
    if (order_.shuffle_seed)
        k = shuffled_index(k, per_epoch_, mix_bits(mix_bits(*order_.shuffle_seed) + static_cast<std::uint64_t>(epoch)));
    return {epoch, k * order_.length.value};
}

void SequenceStream::read(std::int64_t sequence, Tokens first, std::span<std::int32_t> ids) const {
    const auto count = static_cast<std::int64_t>(ids.size()), whole = order_.length.value + 1;
    SLUICE_CHECK(first.value >= 0 && count <= whole && first.value <= whole - count,
                 "tokens are read inside a sequence");
    source_.read(place(sequence).position + first.value, ids);
}

}  // namespace sluice

// The training sequences of a source, in an order that one integer resumes.
//
// A sequence of S tokens is S + 1 of the source: inputs are the first S, targets the last S. The k-th of an epoch
// begins at token k * S; what is left at the end of the source, shorter than a sequence, is not used. Sequences are
// counted over all epochs, so that the state of a stream is the number of the next one and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/units.h"
#include "runtime/data/token_source.h"

namespace sluice {

struct SequenceOrder {
    Tokens length{};                            // S > 0
    std::optional<std::uint64_t> shuffle_seed;  // absent: as stored, every epoch
};

// Where a sequence is.
struct SequencePlace {
    std::int64_t epoch = 0;     // passes over the source before it
    std::int64_t position = 0;  // its first token in the source
    friend bool operator==(const SequencePlace&, const SequencePlace&) = default;
};

// Reads may come from several threads at once, and allocate nothing.
class SequenceStream {
public:
    // Throws InputError where the source is shorter than one sequence.
    SequenceStream(TokenSource source, SequenceOrder order);

    const TokenSource& source() const { return source_; }
    Tokens length() const { return order_.length; }
    std::int64_t sequences_per_epoch() const { return per_epoch_; }

    // Requires: sequence >= 0. With a seed, epoch e has the order shuffled_index(k, sequences_per_epoch(), key) with
    // key = mix_bits(mix_bits(seed) + e).
    SequencePlace place(std::int64_t sequence) const;

    // Tokens first .. first + ids.size() - 1 of the S + 1 of a sequence: inputs of tokens f .. are read with first = f,
    // their targets with first = f + 1. Requires: they lie inside it. Throws as TokenSource::read.
    void read(std::int64_t sequence, Tokens first, std::span<std::int32_t> ids) const;

private:
    TokenSource source_;
    SequenceOrder order_;
    std::int64_t per_epoch_ = 0;
};

// The sequence that the ops with Tag::sequence `b` of step `step` train on, where every step has `batch` sequences.
// Schedules number the batch over all replicas (replica d has the d-th part of it), so nothing else decides who reads
// what.
constexpr std::int64_t sequence_of_step(std::int64_t step, std::int64_t batch, std::int64_t b) {
    return step * batch + b;
}

}  // namespace sluice

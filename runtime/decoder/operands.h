// Finds what an op's function works on among its accesses. docs/functions.md lists, for every function, the accesses it
// needs; what is missing or has another size is an InputError that names the op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/matrix_view.h"
#include "runtime/rank_arenas.h"
#include "schedule/schedule.h"

namespace sluice {

class Operands {
public:
    Operands(const Schedule& schedule, const RankArenas& arenas, const Op& op);

    // The one access of a kind (the k-th of them).
    std::span<float> of_kind(BufferKind kind, std::size_t k = 0) const;
    // Likewise with a mode; an accumulating access counts as a written one, too.
    std::span<float> of_kind(BufferKind kind, AccessMode mode) const;
    // What an op accumulates into (gradients, dK and dV), and whether it has to begin with zeros: its access is a
    // write.
    struct Accumulator {
        std::span<float> values;
        bool begins = false;
    };
    Accumulator accumulator(BufferKind kind, std::size_t k = 0) const;
    bool has(BufferKind kind, AccessMode mode) const;

    // A saved tensor. With a mode: of the buffers accessed so. Empty where the op does not access it.
    std::span<float> tensor(Tensor tensor) const;
    std::span<float> tensor(Tensor tensor, AccessMode mode) const;
    bool has(Tensor tensor, AccessMode mode) const;

    // The stream: the rank's rows of one subsequence. Block 0 is the residual stream, or its gradient; block 1 what a
    // reduce-scatter leaves in backward.
    std::span<float> stream(std::uint32_t block) const;
    // What arrives from the op before: a block of the stream that is read, or a boundary buffer.
    std::span<float> arriving() const;
    // A buffer that crosses stages or waits for backward: rows of the rank, of one subsequence.
    std::span<float> boundary(AccessMode mode) const;
    // Where the result goes: partial sums for a reduce-scatter, a block of the stream, or a boundary buffer.
    std::span<float> target() const;
    // The gathered rows that a matmul reads; without sequence parallelism nothing is gathered and this is empty.
    std::span<float> gathered() const;

    // The elements as rows of `columns`; checks that there are `rows` of them.
    MatrixView matrix(std::span<float> values, std::int64_t rows, std::int64_t columns) const;
    // The rank's own rows of a tensor that may hold all tokens' (`first_row` on) or only these.
    MatrixView own_rows(std::span<float> values, std::int64_t rows, std::int64_t first_row, std::int64_t all_rows,
                        std::int64_t columns) const;
    // The first `count` floats; checks that they are there.
    std::span<float> workspace(std::int64_t count) const;

    [[noreturn]] void refuse(std::string_view what) const;

private:
    enum class Place : std::uint8_t { kStream, kBoundary, kOther };
    Place place(const Access& access) const;
    const Buffer& buffer(const Access& access) const { return schedule_.buffers[index(access.buffer)]; }
    std::span<float> find(Tensor tensor, std::optional<AccessMode> mode) const;

    const Schedule& schedule_;
    const RankArenas& arenas_;
    const Op& op_;
};

}  // namespace sluice

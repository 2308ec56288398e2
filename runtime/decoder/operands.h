// Finds what an op's function works on among its accesses. docs/functions.md lists, for every function, the accesses it
// needs; what is missing or has another size is an InputError that names the op.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "runtime/matrix_view.h"
#include "runtime/rank_arenas.h"
#include "schedule/schedule.h"

namespace sluice {

// As bytes. The memory may be a device's: nothing in here looks into it.
class OpBytes {
public:
    OpBytes(const Schedule& schedule, const RankArenas& arenas, const Op& op);

    // The one access of a kind (the k-th of them).
    std::span<std::byte> of_kind(BufferKind kind, std::size_t k = 0) const;
    // Likewise with a mode; an accumulating access counts as a written one, too.
    std::span<std::byte> of_kind(BufferKind kind, AccessMode mode) const;
    // What an op accumulates into (gradients, dK and dV), and whether it has to begin with zeros: its access is a
    // write.
    struct Accumulator {
        std::span<std::byte> bytes;
        bool begins = false;
    };
    Accumulator accumulator(BufferKind kind, std::size_t k = 0) const;
    bool has(BufferKind kind, AccessMode mode) const;

    // A saved tensor. With a mode: of the buffers accessed so.
    std::span<std::byte> tensor(Tensor tensor) const;
    std::span<std::byte> tensor(Tensor tensor, AccessMode mode) const;
    bool has(Tensor tensor, AccessMode mode) const;

    // The stream: the rank's rows of one subsequence. Block 0 is the residual stream, or its gradient; block 1 what a
    // reduce-scatter leaves in backward.
    std::span<std::byte> stream(std::uint32_t block) const;
    // What arrives from the op before: a block of the stream that is read, or a boundary buffer.
    std::span<std::byte> arriving() const;
    // A buffer that crosses stages or waits for backward: rows of the rank, of one subsequence.
    std::span<std::byte> boundary(AccessMode mode) const;
    // Where the result goes: partial sums for a reduce-scatter, a block of the stream, or a boundary buffer.
    std::span<std::byte> target() const;
    // The gathered rows that a matmul reads; without sequence parallelism nothing is gathered and this is empty.
    std::span<std::byte> gathered() const;

    [[noreturn]] void refuse(std::string_view what) const;

private:
    enum class Place : std::uint8_t { kStream, kBoundary, kOther };
    Place place(const Access& access) const;
    const Buffer& buffer(const Access& access) const { return schedule_.buffers[index(access.buffer)]; }
    std::span<std::byte> find(Tensor tensor, std::optional<AccessMode> mode) const;

    const Schedule& schedule_;
    const RankArenas& arenas_;
    const Op& op_;
};

// Bytes seen as elements of one type. Requires: whole elements, aligned; both are checked (InternalError).
template <class Element>
std::span<Element> as_elements(std::span<std::byte> bytes) {
    SLUICE_CHECK(bytes.size() % sizeof(Element) == 0, "buffers of elements hold whole ones");
    SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(Element) == 0, "elements are aligned");
    return {reinterpret_cast<Element*>(bytes.data()), bytes.size() / sizeof(Element)};
}

// The same operands as elements: fp32 on the CPU; on a GPU bf16, and fp32 where a tensor is so.
template <class Element>
class OperandsOf {
public:
    using View = BasicMatrixView<Element>;
    using Span = std::span<Element>;

    OperandsOf(const Schedule& schedule, const RankArenas& arenas, const Op& op) : op_(schedule, arenas, op) {}

    const OpBytes& bytes() const { return op_; }
    bool has(BufferKind kind, AccessMode mode) const { return op_.has(kind, mode); }
    bool has(Tensor tensor, AccessMode mode) const { return op_.has(tensor, mode); }
    Span of_kind(BufferKind kind, std::size_t k = 0) const { return as_elements<Element>(op_.of_kind(kind, k)); }
    Span of_kind(BufferKind kind, AccessMode mode) const { return as_elements<Element>(op_.of_kind(kind, mode)); }
    struct Accumulator {
        Span values;
        bool begins = false;
    };
    Accumulator accumulator(BufferKind kind, std::size_t k = 0) const {
        const OpBytes::Accumulator found = op_.accumulator(kind, k);
        return {as_elements<Element>(found.bytes), found.begins};
    }
    Span tensor(Tensor tensor) const { return as_elements<Element>(op_.tensor(tensor)); }
    Span tensor(Tensor tensor, AccessMode mode) const { return as_elements<Element>(op_.tensor(tensor, mode)); }
    Span stream(std::uint32_t block) const { return as_elements<Element>(op_.stream(block)); }
    Span arriving() const { return as_elements<Element>(op_.arriving()); }
    Span boundary(AccessMode mode) const { return as_elements<Element>(op_.boundary(mode)); }
    Span target() const { return as_elements<Element>(op_.target()); }
    Span gathered() const { return as_elements<Element>(op_.gathered()); }

    // The elements as rows of `columns`; checks that there are `rows` of them.
    View matrix(Span values, std::int64_t rows, std::int64_t columns) const;
    // The rank's own rows of a tensor that may hold all tokens' (`first_row` on) or only these.
    View own_rows(Span values, std::int64_t rows, std::int64_t first_row, std::int64_t all_rows,
                  std::int64_t columns) const;
    // The first `count` elements of the workspace; checks that they are there.
    Span workspace(std::int64_t count) const;

    [[noreturn]] void refuse(std::string_view what) const { op_.refuse(what); }

private:
    OpBytes op_;
};

using Operands = OperandsOf<float>;

[[noreturn]] void refuse_size(const OpBytes& op, std::size_t values, std::int64_t rows, std::int64_t columns);
[[noreturn]] void refuse_workspace(const OpBytes& op, std::size_t bytes, std::size_t needed);

template <class Element>
auto OperandsOf<Element>::matrix(Span values, std::int64_t rows, std::int64_t columns) const -> View {
    if (static_cast<std::int64_t>(values.size()) != rows * columns) refuse_size(op_, values.size(), rows, columns);
    return {values.data(), rows, columns};
}

template <class Element>
auto OperandsOf<Element>::own_rows(Span values, std::int64_t rows, std::int64_t first_row, std::int64_t all_rows,
                                   std::int64_t columns) const -> View {
    if (static_cast<std::int64_t>(values.size()) == rows * columns) return {values.data(), rows, columns};
    return matrix(values, all_rows, columns).row_range(first_row, rows);
}

template <class Element>
auto OperandsOf<Element>::workspace(std::int64_t count) const -> Span {
    const Span space = of_kind(BufferKind::kWorkspace);
    const auto needed = static_cast<std::size_t>(count);
    if (space.size() < needed) refuse_workspace(op_, space.size_bytes(), needed * sizeof(Element));
    return space.first(needed);
}

}  // namespace sluice

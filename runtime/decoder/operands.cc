#include "runtime/decoder/operands.h"

#include <fmt/format.h>

#include "base/error.h"
#include "schedule/describe.h"

namespace sluice {
namespace {

bool has_mode(const Access& access, AccessMode mode) {
    return access.mode == mode || (mode == AccessMode::kWrite && access.mode == AccessMode::kAccumulate);
}

}  // namespace

OpBytes::OpBytes(const Schedule& schedule, const RankArenas& arenas, const Op& op)
    : schedule_(schedule), arenas_(arenas), op_(op) {}

void OpBytes::refuse(std::string_view what) const {
    throw InputError(fmt::format("{}, {} {} of layer {}: it cannot be run: {}", describe(op_), name(op_.tag.phase),
                                 name(op_.tag.function), op_.tag.layer, what));
}

std::span<std::byte> OpBytes::of_kind(BufferKind kind, std::size_t k) const {
    for (const Access& access : op_.accesses)
        if (buffer(access).kind == kind && k-- == 0) return arenas_.span_of(access);
    refuse(fmt::format("no access to a buffer of kind {}", name(kind)));
}

std::span<std::byte> OpBytes::of_kind(BufferKind kind, AccessMode mode) const {
    for (const Access& access : op_.accesses)
        if (buffer(access).kind == kind && has_mode(access, mode)) return arenas_.span_of(access);
    refuse(fmt::format("no {} access to a buffer of kind {}", name(mode), name(kind)));
}

bool OpBytes::has(BufferKind kind, AccessMode mode) const {
    for (const Access& access : op_.accesses)
        if (buffer(access).kind == kind && has_mode(access, mode)) return true;
    return false;
}

OpBytes::Accumulator OpBytes::accumulator(BufferKind kind, std::size_t k) const {
    for (const Access& access : op_.accesses)
        if (buffer(access).kind == kind && has_mode(access, AccessMode::kWrite) && k-- == 0)
            return {arenas_.span_of(access), access.mode == AccessMode::kWrite};
    refuse(fmt::format("it adds to no buffer of kind {}", name(kind)));
}

std::span<std::byte> OpBytes::find(Tensor wanted, std::optional<AccessMode> mode) const {
    for (const Access& access : op_.accesses) {
        if (mode && !has_mode(access, *mode)) continue;
        Bytes begin{};
        for (const SavedTensor& saved : buffer(access).tensors) {
            if (saved.tensor == wanted)
                return arenas_.span_of(access.buffer)
                    .subspan(static_cast<std::size_t>(begin.value), static_cast<std::size_t>(saved.bytes.value));
            begin += saved.bytes;
        }
    }
    return {};
}

std::span<std::byte> OpBytes::tensor(Tensor wanted) const {
    const std::span<std::byte> found = find(wanted, std::nullopt);
    if (found.empty()) refuse(fmt::format("no access to tensor {}", name(wanted)));
    return found;
}

std::span<std::byte> OpBytes::tensor(Tensor wanted, AccessMode mode) const {
    const std::span<std::byte> found = find(wanted, mode);
    if (found.empty()) refuse(fmt::format("no {} access to tensor {}", name(mode), name(wanted)));
    return found;
}

bool OpBytes::has(Tensor wanted, AccessMode mode) const { return !find(wanted, mode).empty(); }

// The stream is staging on the device in two blocks; what crosses stages, or waits for backward, has one.
OpBytes::Place OpBytes::place(const Access& access) const {
    const Buffer& b = buffer(access);
    if (b.space != Space::kDevice) return Place::kOther;
    if (b.kind == BufferKind::kStaging) return b.block_count() == 2 ? Place::kStream : Place::kBoundary;
    return b.kind == BufferKind::kActivation && b.tensors.empty() ? Place::kBoundary : Place::kOther;
}

std::span<std::byte> OpBytes::stream(std::uint32_t block) const {
    for (const Access& access : op_.accesses)
        if (place(access) == Place::kStream && access.first_block == block && access.last_block == block)
            return arenas_.span_of(access);
    refuse(fmt::format("no access to block {} of the stream", block));
}

std::span<std::byte> OpBytes::boundary(AccessMode mode) const {
    for (const Access& access : op_.accesses)
        if (place(access) == Place::kBoundary && has_mode(access, mode)) return arenas_.span_of(access);
    refuse(fmt::format("no {} access to a boundary buffer", name(mode)));
}

std::span<std::byte> OpBytes::arriving() const {
    for (const Access& access : op_.accesses) {
        const Place p = place(access);
        const bool reduced = p == Place::kStream && access.first_block == 1;
        if (p != Place::kOther && access.mode == AccessMode::kRead && !reduced) return arenas_.span_of(access);
    }
    refuse("nothing arrives: it reads neither the stream nor a boundary buffer");
}

std::span<std::byte> OpBytes::target() const {
    for (const Access& access : op_.accesses)
        if (buffer(access).kind == BufferKind::kComm && has_mode(access, AccessMode::kWrite))
            return arenas_.span_of(access);
    for (const Access& access : op_.accesses)
        if (place(access) != Place::kOther && has_mode(access, AccessMode::kWrite)) return arenas_.span_of(access);
    refuse("it writes neither partial sums nor the stream nor a boundary buffer");
}

std::span<std::byte> OpBytes::gathered() const {
    for (const Access& access : op_.accesses)
        if (buffer(access).kind == BufferKind::kComm && access.mode == AccessMode::kRead)
            return arenas_.span_of(access);
    return {};
}

void refuse_size(const OpBytes& op, std::size_t values, std::int64_t rows, std::int64_t columns) {
    op.refuse(fmt::format("got {} values, expected {} x {}", values, rows, columns));
}

void refuse_workspace(const OpBytes& op, std::size_t bytes, std::size_t needed) {
    op.refuse(
        fmt::format("it needs {} B of workspace, got {} B: the calibration's bounds are too small", needed, bytes));
}

}  // namespace sluice

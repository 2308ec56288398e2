#include "validation/op_pieces.h"

#include <algorithm>
#include <variant>

#include "traces/lane_name.h"

namespace sluice {

OpPieces::OpPieces(const Trace& trace, bool kernels, const Schedule* schedule)
    : trace_(trace), kernels_(kernels), schedule_(schedule), first_kernel_(trace.events.size() + 1, 0) {
    for (const KernelSpan& span : trace.kernels) ++first_kernel_[span.event + 1];
    for (std::size_t i = 1; i < first_kernel_.size(); ++i) first_kernel_[i] += first_kernel_[i - 1];
}

std::string_view OpPieces::class_of(const TraceEvent& event) const {
    const LaneRole role = trace_.lanes[event.lane].role;
    if (role == LaneRole::kCollective && schedule_ != nullptr && index(event.op) < schedule_->ops.size()) {
        const auto* collective = std::get_if<Collective>(&schedule_->ops[index(event.op)].work);
        if (collective != nullptr) return name(collective->kind);
    }
    return category_of(role);
}

void OpPieces::of(const TraceEvent& event, Nanoseconds from, Nanoseconds to, const Piece& piece) const {
    const auto id = static_cast<std::size_t>(&event - trace_.events.data());
    const std::size_t first = first_kernel_[id], last = first_kernel_[id + 1];
    if (trace_.lanes[event.lane].role != LaneRole::kCompute || !kernels_ || first == last)
        return piece(class_of(event), 1, std::max(to - from, Nanoseconds{0}));
    Nanoseconds at = from;
    const auto give = [&](Nanoseconds until, std::string_view op_class, std::uint32_t calls) {
        until = std::clamp(until, at, std::max(at, to));
        if (calls > 0 || until > at) piece(op_class, calls, until - at);
        at = until;
    };
    for (std::size_t k = first; k < last; ++k) {
        const KernelSpan& span = trace_.kernels[k];
        if (to_nanoseconds(span.end) < from || to_nanoseconds(span.begin) > to) continue;
        give(to_nanoseconds(span.begin), kBetweenKernels, 0);
        give(to_nanoseconds(span.end), trace_.labels[span.label], span.count);
    }
    give(to, kBetweenKernels, 0);
}

}  // namespace sluice

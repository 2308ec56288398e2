// Messages without partners: runtime/stand_in.h says what takes their place.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/decoder/bind_op.h"
#include "runtime/decoder/message_operands.h"
#include "runtime/stand_in.h"

namespace sluice {
namespace {

void copy_bytes(std::span<const std::byte> from, std::span<std::byte> to) {
    if (from.data() != to.data()) std::memcpy(to.data(), from.data(), from.size());
}

// The same part in everybody's place.
void repeat(std::span<const std::byte> part, std::span<std::byte> whole) {
    for (std::size_t at = 0; at < whole.size(); at += part.size()) copy_bytes(part, whole.subspan(at, part.size()));
}

std::size_t own_place(const RankContext& c, const Op& op) {
    const std::vector<Rank>& members = c.schedule.groups[index(std::get<Collective>(op.work).group)].members;
    return static_cast<std::size_t>(std::find(members.begin(), members.end(), c.rank) - members.begin());
}

BoundOp bind_collective_alone(const RankContext& c, const Op& op) {
    const Collective& work = std::get<Collective>(op.work);
    if (work.calls != 1) Operands(c.schedule, c.arenas, op).refuse("it stands for several collectives");
    if (shares_out(op)) return [](KernelClock&) {};
    switch (work.kind) {
        case CollectiveKind::kAllGather:
            return [gather = gathered_bytes(c, op, sizeof(float))](KernelClock&) { repeat(gather.part, gather.whole); };
        case CollectiveKind::kReduceScatter: {
            const PartAndWhole scatter = scattered_bytes(c, op);
            const auto own = scatter.whole.subspan(own_place(c, op) * scatter.part.size(), scatter.part.size());
            return [scatter, own](KernelClock&) { copy_bytes(own, scatter.part); };
        }
        case CollectiveKind::kAllReduce:
            return [](KernelClock&) {};
        case CollectiveKind::kAllToAll:
            return [exchanged = exchanged_bytes(c, op, sizeof(float))](KernelClock&) {
                for (const ExchangedBytes& e : exchanged) copy_bytes(e.out, e.in);
            };
        default:
            Operands(c.schedule, c.arenas, op).refuse("no such collective in this runtime");
    }
}

BoundOp bind_transfer_alone(const RankContext& c, const Op& op) {
    if (std::holds_alternative<Send>(op.work)) return [](KernelClock&) {};
    const std::span<float> values = as_floats(transferred_bytes(c, op));
    const float scale = plausible_scale(op.tag.phase, c.scenario.sequence);
    return [values, scale, seed = index(op.id)](KernelClock&) {
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = scale * plausible_value(seed, i);
    };
}

std::int64_t nanoseconds(Seconds time) { return static_cast<std::int64_t>(time.value * 1e9); }

}  // namespace

BoundOp bind_message_alone(const RankContext& c, const Op& op) {
    BoundOp message =
        std::holds_alternative<Collective>(op.work) ? bind_collective_alone(c, op) : bind_transfer_alone(c, op);
    const StandInTime time = c.stand_ins->of(op.id);
    if (time.lasts.value <= 0 && !time.not_before) return message;
    return [message = std::move(message), time, &step_begin = *c.step_begin](KernelClock& clock) {
        std::int64_t until = steady_now() + nanoseconds(time.lasts);
        if (time.not_before) until = std::max(until, step_begin + nanoseconds(*time.not_before));
        message(clock);
        if (const std::int64_t left = until - steady_now(); left > 0)
            std::this_thread::sleep_for(std::chrono::nanoseconds(left));
    };
}

}  // namespace sluice

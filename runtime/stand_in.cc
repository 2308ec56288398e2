#include "runtime/stand_in.h"

#include "traces/find_event.h"

namespace sluice {

StandIns stand_ins_from(const Schedule& slice, const Trace& predicted) {
    StandIns stand_ins;
    stand_ins.times.resize(slice.ops.size());
    for (const Op& op : slice.ops) {
        if (std::holds_alternative<Compute>(op.work) || std::holds_alternative<Copy>(op.work)) continue;
        const TraceEvent* event = find_event(predicted, op.id);
        if (event == nullptr) continue;
        StandInTime& time = stand_ins.times[index(op.id)];
        time.lasts = event->end - event->begin;
        if (std::holds_alternative<Receive>(op.work)) time.not_before = event->end;
    }
    return stand_ins;
}

float plausible_scale(Phase phase, Tokens sequence) {
    return phase == Phase::kForward ? 1.0F : 1.0F / static_cast<float>(sequence.value);
}

}  // namespace sluice

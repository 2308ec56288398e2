#include "tools/sluice/adapt_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/format_units.h"
#include "models/kernel_cost.h"
#include "planner/scaled.h"
#include "planner/step_estimate.h"

namespace sluice {
namespace {

struct CopyRate {
    Bytes bytes{};
    Seconds time{};
    bool known() const { return bytes.value > 0 && time.value > 0; }
    BytesPerSecond rate() const { return bytes / time; }
};

CopyRate copies_of(const Trace& trace, LaneRole role) {
    CopyRate copies;
    for (const TraceEvent& e : trace.events) {
        if (trace.lanes[e.lane].role != role) continue;
        copies.bytes += e.bytes;
        copies.time += e.end - e.begin;
    }
    return copies;
}

bool same_placement(const Plan& a, const Plan& b) {
    for (std::size_t s = 0; s < a.stages.size(); ++s)
        if (a.stages[s].offloaded != b.stages[s].offloaded || a.stages[s].recomputed != b.stages[s].recomputed)
            return false;
    return true;
}

Bytes moved(const Plan& plan) {
    Bytes sum{};
    for (const StagePlan& stage : plan.stages)
        for (const Bytes x : stage.offloaded) sum += x;
    return sum;
}

std::int64_t recomputed(const Plan& plan) {
    std::int64_t sum = 0;
    for (const StagePlan& stage : plan.stages)
        for (const std::int64_t r : stage.recomputed) sum += r;
    return sum;
}

}  // namespace

Scenario with_measured_rates(const Scenario& scenario, const Schedule& schedule, const Trace& measured) {
    Scenario s = scenario;
    Seconds predicted{}, taken{};
    for (const TraceEvent& e : measured.events)
        if (const auto* work = std::get_if<Compute>(&schedule.ops[index(e.op)].work)) {
            predicted += compute_time(*work, s.calibration);
            taken += e.end - e.begin;
        }
    if (predicted.value > 0 && taken.value > 0) s = scaled(std::move(s), Resource::kFlops, predicted / taken);
    // A copy's own time, shared links and the other direction included: the sum of both is what the pair can do.
    if (const CopyRate out = copies_of(measured, LaneRole::kCopyOut); out.known())
        s.cluster.pcie.d2h = s.cluster.pcie.switch_d2h = out.rate();
    if (const CopyRate in = copies_of(measured, LaneRole::kCopyIn); in.known())
        s.cluster.pcie.h2d = s.cluster.pcie.switch_h2d = in.rate();
    s.cluster.pcie.duplex = s.cluster.pcie.d2h + s.cluster.pcie.h2d;
    return s;
}

std::optional<std::string> Adaptation::after_step(TrainingRun& run, const StepRecord& record) {
    const PlannedRun& before = run.planned();
    // Idle windows matter where recomputing could become offloading.
    const bool could_move = record.exposed_copies == 0 && recomputed(before.plan) > 0;
    exposed_ = record.exposed_copies > kExposedLimit ? exposed_ + 1 : 0;
    idle_ = could_move ? idle_ + 1 : 0;
    if (exposed_ < patience_ && idle_ < patience_) return std::nullopt;
    const bool by_exposure = exposed_ >= patience_;
    exposed_ = idle_ = 0;

    const Trace measured = run.trace();
    std::vector<std::string> refused;
    std::optional<PlannedRun> after =
        plan_run(with_measured_rates(before.scenario, before.schedule, measured), refused);
    if (!after || same_placement(after->plan, before.plan)) return std::nullopt;
    if (after->estimate >= estimate_step(before.folded, after->scenario).step) return std::nullopt;
    std::string line = fmt::format(
        "placement solved again after step {}: {} for {} steps; copies measured at {} out, {} in; offloaded {} -> {}, "
        "recomputed layers {} -> {}",
        record.report.step,
        by_exposure ? fmt::format("exposed copies {:.1f}% of the step", 100 * record.exposed_copies)
                    : std::string("idle copy windows beside recomputation"),
        patience_, format(after->scenario.cluster.pcie.d2h), format(after->scenario.cluster.pcie.h2d),
        format(moved(before.plan)), format(moved(after->plan)), recomputed(before.plan), recomputed(after->plan));
    run.replace(std::move(*after));
    return line;
}

}  // namespace sluice

#include "tools/sluice/adapt_placement.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format_units.h"
#include "models/copy_cost.h"
#include "planner/step_estimate.h"

namespace sluice {
namespace {

bool same_placement(const Plan& a, const Plan& b) {
    for (std::size_t s = 0; s < a.stages.size(); ++s)
        if (a.stages[s].offloaded != b.stages[s].offloaded || a.stages[s].recomputed != b.stages[s].recomputed)
            return false;
    return true;
}

// A rate that is not known on one side has not changed.
bool has_changed(double before, double now) {
    return before > 0 && now > 0 && (now > before * kRateChange || before > now * kRateChange);
}

std::string copies_text(const StepRates& rates) {
    const auto text = [](BytesPerSecond rate) { return rate.value > 0 ? format(rate) : std::string("not measured"); };
    return fmt::format("copies out {}, in {}", text(rates.out), text(rates.in));
}

}  // namespace

std::int64_t usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

Adaptation::Adaptation(std::int64_t patience, const Scenario& planned)
    : patience_(static_cast<std::size_t>(patience)),
      planned_for_{shared_d2h(planned.cluster), shared_h2d(planned.cluster), 1} {
    SLUICE_CHECK(patience > 0, "an adaptation waits for a step at least");
}

Adaptation::Decision Adaptation::decide(const PlannedRun& now, const StepFacts& facts) {
    std::vector<std::string> advice;
    advise_on_cores(facts, advice);
    if (std::exchange(cold_, false)) return {{}, {}, advice};
    window_.push_back(facts.rates);
    if (window_.size() > patience_) window_.erase(window_.begin());
    exposed_ = facts.exposed > kExposedLimit ? exposed_ + 1 : 0;
    idle_ = facts.exposed < kIdleLimit && recomputed_layers(now.plan) > 0 ? idle_ + 1 : 0;

    if (window_.size() == patience_ && facts.step >= rates_quiet_until_) advise_on_rates(now, facts, advice);
    Decision decision;
    const bool by_exposure = exposed_ >= patience_;
    if ((by_exposure || idle_ >= patience_) && facts.step >= quiet_until_) decision = solve(now, facts, by_exposure);
    decision.advice.insert(decision.advice.begin(), advice.begin(), advice.end());
    return decision;
}

Adaptation::Decision Adaptation::solve(const PlannedRun& now, const StepFacts& facts, bool by_exposure) {
    exposed_ = idle_ = 0;
    const StepRates rates = median_rates(window_);
    Decision decision;
    std::vector<std::string> refused;
    std::optional<PlannedRun> after = plan_run(with_rates(now.scenario, rates), refused);
    // Time left is for copies in place of recomputation, not the other way round.
    const bool wanted = after && (by_exposure || recomputed_layers(after->plan) < recomputed_layers(now.plan));
    const bool faster = wanted && !same_placement(after->plan, now.plan) &&
                        after->estimate * (1 + kLeastGain) < estimate_step(now.folded, after->scenario).step;
    if (!faster) {
        fruitless_ = std::min<std::int64_t>(fruitless_ + 1, 10);
        quiet_until_ = facts.step + (static_cast<std::int64_t>(patience_) << fruitless_);
        if (by_exposure && !std::exchange(said_exposed_, true))
            decision.advice.push_back(fmt::format(
                "exposed copies {:.1f}% of the step on one rank, and no other placement of this plan is faster by more "
                "than {:.1f}% with the measured rates ({}): another n, pp, sp or partition may be; put these rates "
                "into "
                "the cluster file and run sluice plan",
                100 * facts.exposed, 100 * kLeastGain, copies_text(rates)));
        return decision;
    }
    decision.reason = fmt::format(
        "placement solved again after step {}: {} for {} steps; measured {}, compute {:.2f} times the calibration's; "
        "offloaded {} -> {}, recomputed layers {} -> {}",
        facts.step,
        by_exposure ? fmt::format("exposed copies, now {:.1f}% of the step on one rank", 100 * facts.exposed)
                    : std::string("time left for copies beside recomputation"),
        patience_, copies_text(rates), rates.compute * compute_, format(offloaded_bytes(now.plan)),
        format(offloaded_bytes(after->plan)), recomputed_layers(now.plan), recomputed_layers(after->plan));
    decision.plan = std::move(after);
    if (rates.compute > 0) compute_ *= rates.compute;
    window_.clear();
    cold_ = true;
    fruitless_ = 0, said_exposed_ = false;
    return decision;
}

void Adaptation::advise_on_rates(const PlannedRun& now, const StepFacts& facts, std::vector<std::string>& advice) {
    const auto in_all_steps = [&](const auto& changed) { return std::all_of(window_.begin(), window_.end(), changed); };
    // Faster copies help where layers are recomputed for want of them.
    const auto copies_changed = [&](BytesPerSecond before, BytesPerSecond rate) {
        return has_changed(before.value, rate.value) && (rate < before || recomputed_layers(now.plan) > 0);
    };
    const bool out = in_all_steps([&](const StepRates& r) { return copies_changed(planned_for_.out, r.out); });
    const bool in = in_all_steps([&](const StepRates& r) { return copies_changed(planned_for_.in, r.in); });
    const bool compute =
        in_all_steps([&](const StepRates& r) { return has_changed(planned_for_.compute, r.compute * compute_); });
    if (!out && !in && !compute) return;
    StepRates rates = median_rates(window_);
    rates.compute *= compute_;
    std::string text =
        fmt::format("rates are others than planned for, by more than {} times, for {} steps:", kRateChange, patience_);
    if (out) text += fmt::format(" copies out {}, planned {};", format(rates.out), format(planned_for_.out));
    if (in) text += fmt::format(" copies in {}, planned {};", format(rates.in), format(planned_for_.in));
    if (compute)
        text += fmt::format(" compute takes {:.2f} times the calibration's time, planned {:.2f};", rates.compute,
                            planned_for_.compute);
    advice.push_back(text +
                     " sluice plan with these rates (cluster: pcie; calibration: sluice fit) may choose another n, pp, "
                     "sp or partition");
    if (out) planned_for_.out = rates.out;
    if (in) planned_for_.in = rates.in;
    if (compute) planned_for_.compute = rates.compute;
    rates_said_ = std::min<std::int64_t>(rates_said_ + 1, 20);
    rates_quiet_until_ = facts.step + (static_cast<std::int64_t>(patience_) << (rates_said_ + 2));
}

void Adaptation::advise_on_cores(const StepFacts& facts, std::vector<std::string>& advice) {
    if (facts.cores == 0) return;
    if (cores_ && *cores_ != facts.cores)
        advice.push_back(fmt::format(
            "{} cores instead of {}: sluice plan for as many ranks as there are cores may choose another plan; a "
            "checkpoint resumes on any",
            facts.cores, *cores_));
    cores_ = facts.cores;
}

Adaptation::Decision Adaptation::after_step(TrainingRun& run, const StepRecord& record) {
    const PlannedRun& now = run.planned();
    StepFacts facts{record.report.step, record.worst_exposed_copies,
                    step_rates(now.scenario, now.schedule, run.trace()), usable_cores()};
    Decision decision = decide(now, facts);
    if (decision.plan) {
        run.replace(std::move(*decision.plan));
        decision.plan.reset();
    }
    return decision;
}

}  // namespace sluice

#include "tools/sluice/choose_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <span>

#include "base/error.h"
#include "base/format_units.h"
#include "planner/lower.h"
#include "planner/unfold_step.h"
#include "scenarios/policy_names.h"
#include "sim/child_process.h"
#include "sim/simulate.h"

namespace sluice {
namespace {

std::string_view name_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::kFinalist:
            return "finalist";
        case Verdict::kSlower:
            return "slower";
        case Verdict::kInfeasible:
            return "does not fit";
        case Verdict::kImpossible:
            return "impossible";
    }
    return "?";
}

}  // namespace

Seconds replayed_step(const Schedule& schedule, const Scenario& scenario) {
    SimulateOptions options;
    options.events = false;
    const Simulation simulation = simulate(schedule, scenario.cluster, scenario.calibration, options);
    SLUICE_CHECK(simulation.stuck.empty(), "planned schedules run to their end");
    return simulation.trace.step;
}

namespace {

Schedule schedule_to_replay(const PlannedStep& step, const Scenario& scenario) {
    return unfold_step(without_device_buffers(step.folded), scenario);
}

}  // namespace

Seconds replayed_step(const PlannedStep& step, const Scenario& scenario) {
    return replayed_step(schedule_to_replay(step, scenario), scenario);
}

namespace {

// All at a time, in a child each.
void replay_finalists(std::vector<ReplayedCandidate>& candidates) {
    const SharedMemory memory(candidates.size() * sizeof(Seconds));
    const std::span<Seconds> replayed(static_cast<Seconds*>(memory.data()), candidates.size());
    std::vector<std::function<void()>> replays;
    for (std::size_t k = 0; k < candidates.size(); ++k) {
        new (&replayed[k]) Seconds{};
        if (candidates[k].candidate.verdict == Verdict::kFinalist)
            replays.push_back([&, k] {
                const Candidate& candidate = candidates[k].candidate;
                // Never given back: the process ends first, and giving back its ops takes as long as making them.
                const auto* schedule = new Schedule(schedule_to_replay(*candidate.planned, candidate.scenario));
                replayed[k] = replay_here(*schedule, candidate.scenario.cluster, candidate.scenario.calibration);
            });
    }
    run_in_children("replay of the finalists", replays, 0);
    for (std::size_t k = 0; k < candidates.size(); ++k) candidates[k].replayed = replayed[k];
}

}  // namespace

Choice choose_plan(const Scenario& scenario, ProgressLine& progress) {
    SearchOptions options;
    if (progress.active())
        options.progress = [&](std::string_view what, double fraction) {
            progress.show(fmt::format("plan: {}", what), fraction);
        };
    Choice choice;
    for (Candidate& candidate : search(scenario, options)) choice.candidates.push_back({std::move(candidate), {}});
    progress.show("plan: replaying the finalists");
    replay_finalists(choice.candidates);
    const auto rank = [](const ReplayedCandidate& c) { return c.replayed.value > 0 ? c.replayed.value : 1e300; };
    std::stable_sort(choice.candidates.begin(), choice.candidates.end(),
                     [&](const ReplayedCandidate& a, const ReplayedCandidate& b) { return rank(a) < rank(b); });
    return choice;
}

std::vector<std::string> make_choices(Scenario& scenario) {
    if (!scenario.policy.automatic.any()) return {};
    ProgressLine progress;
    const Choice choice = choose_plan(scenario, progress);
    if (choice.found()) {
        scenario = choice.scenario();
        return {};
    }
    std::vector<std::string> reasons;
    for (const ReplayedCandidate& c : choice.candidates)
        reasons.push_back(fmt::format("{}: {}", c.candidate.label(), c.candidate.reason));
    return reasons;
}

std::string choice_text(const Scenario& scenario, const Choice& choice, bool explain) {
    std::string text = fmt::format("{}: {}, {} tokens, {} x {} on {}\n", scenario.name, scenario.model.name,
                                   scenario.sequence.value * scenario.batch, scenario.cluster.gpus(),
                                   scenario.cluster.gpu.name, scenario.cluster.name);
    if (choice.found()) {
        const ReplayedCandidate& best = choice.candidates.front();
        text += fmt::format("  best             {}: {} replayed, {} by the cost model; {}\n", best.candidate.label(),
                            format(best.replayed), format(best.candidate.estimate), best.candidate.reason);
    } else {
        text += fmt::format("  nothing fits, of {} candidates\n", choice.candidates.size());
    }
    if (!explain && choice.found()) return text;
    for (std::size_t i = choice.found() ? 1 : 0; i < choice.candidates.size(); ++i) {
        const ReplayedCandidate& c = choice.candidates[i];
        const std::string why = c.replayed.value > 0 ? fmt::format("{} replayed, {} by the cost model",
                                                                   format(c.replayed), format(c.candidate.estimate))
                                                     : c.candidate.reason;
        text += fmt::format("  {:<17}{}: {}\n", name_of(c.candidate.verdict), c.candidate.label(), why);
    }
    return text;
}

std::string choice_json(const Choice& choice) {
    using Json = nlohmann::ordered_json;
    const auto seconds = [](Seconds t) { return t.value > 0 ? Json(t.value) : Json(nullptr); };
    Json json{{"feasible", choice.found()}, {"candidates", Json::array()}};
    for (const ReplayedCandidate& c : choice.candidates) {
        const Policy& p = c.candidate.scenario.policy;
        json["candidates"].push_back({{"sp", p.sp},
                                      {"pp", p.pp},
                                      {"dp", p.dp},
                                      {"zero", static_cast<int>(p.zero)},
                                      {"n", p.n},
                                      {"order", name(p.order)},
                                      {"placement", name(p.placement)},
                                      {"partition", name(p.partition.kind)},
                                      {"verdict", name_of(c.candidate.verdict)},
                                      {"reason", c.candidate.reason},
                                      {"bound_seconds", seconds(c.candidate.bound)},
                                      {"estimate_seconds", seconds(c.candidate.estimate)},
                                      {"replayed_seconds", seconds(c.replayed)}});
    }
    return json.dump(2);
}

}  // namespace sluice

#include "tools/sluice/answer_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/format_units.h"
#include "planner/search.h"
#include "scenarios/policy_names.h"
#include "sim/simulate.h"
#include "tools/sluice/choose_plan.h"

namespace sluice {
namespace {

Simulation replay(const Lowered& lowered, const Scenario& scenario) {
    Simulation simulation = simulate(lowered.schedule, scenario.cluster, scenario.calibration);
    SLUICE_CHECK(simulation.stuck.empty(), "planned schedules run to their end");
    return simulation;
}

std::string choices_text(const Scenario& s) {
    Candidate candidate;
    candidate.scenario = s;
    return candidate.label();
}

// "sp 4 x pp 2, n 64, partition flops; offloads 12.3% less"
std::string difference(const Explanation& base, const Scenario& scenario, const Plan& plan) {
    std::string text;
    const auto add = [&](std::string part) { text += (text.empty() ? "" : "; ") + part; };
    if (choices_text(scenario) != choices_text(base.scenario)) add(choices_text(scenario));
    // per rank of a stage; times its ranks they are comparable between degrees
    const double before =
        static_cast<double>(offloaded_bytes(base.lowered.plan).value * base.scenario.ranks_of_stage());
    const double now = static_cast<double>(offloaded_bytes(plan).value * scenario.ranks_of_stage());
    if (before > 0 && now != before)
        add(fmt::format("offloads {:.1f}% {}", 100 * std::abs(now / before - 1), now < before ? "less" : "more"));
    else if (before == 0 && now > 0)
        add("offloads");
    const std::int64_t was = recomputed_layers(base.lowered.plan), is = recomputed_layers(plan);
    if (was != is) add(fmt::format("recomputes {} layers instead of {}", is, was));
    return text.empty() ? "placed anew" : text;
}

// The search's best with more of the resource, by the cost model; the scenario's own open choices stay open.
ResourceGain gain_of(Resource resource, const Scenario& open, const Explanation& base) {
    ResourceGain gain;
    gain.resource = resource;
    const Scenario same = scaled(base.scenario, resource, kMoreOfAResource);
    gain.same_plan = replayed_step(base.lowered.schedule, same);
    gain.step = gain.same_plan;
    const Candidate best = search(scaled(open, resource, kMoreOfAResource)).front();
    if (best.verdict != Verdict::kFinalist) return gain;
    gain.re_planned = replayed_step(*best.planned, best.scenario);
    if (gain.re_planned < gain.same_plan) {
        gain.step = gain.re_planned;
        gain.change = difference(base, best.scenario, best.planned->plan);
    }
    return gain;
}

double percent_faster(const ResourceGain& gain, Seconds step) { return 100 * (1 - gain.step / step); }

}  // namespace

std::vector<StepPart> step_parts(const StepSummary& summary) {
    const LaneTime& mean = summary.mean;
    std::vector<StepPart> parts{{"exposed D2H copies", mean.exposed_d2h},
                                {"exposed H2D copies", mean.exposed_h2d},
                                {"exposed communication", mean.exposed_comm},
                                {"warm-up", mean.warm_up},
                                {"bubble", mean.bubble},
                                {"drain", mean.drain},
                                {"memory wait", mean.memory_wait}};
    Seconds in_kernels{};
    for (const LabelTime& kernel : summary.kernels) {
        const Seconds time = kernel.time / static_cast<double>(summary.lanes.size());
        in_kernels += time;
        parts.push_back({kernel.label, time});
    }
    if (mean.work > in_kernels) parts.push_back({"launch gaps and slowdown of kernels", mean.work - in_kernels});
    std::stable_sort(parts.begin(), parts.end(), [](const StepPart& a, const StepPart& b) { return a.time > b.time; });
    std::erase_if(parts, [](const StepPart& part) { return part.time.value <= 0; });
    return parts;
}

Explanation explain_step(const Scenario& scenario, ProgressLine& progress) {
    Explanation result;
    result.scenario = scenario;
    result.refusals = make_choices(result.scenario);
    if (!result.refusals.empty()) return result;
    progress.show("explain: the step");
    result.lowered = lower(result.scenario);
    if (!result.lowered.feasible()) {
        result.refusals = result.lowered.reasons;
        return result;
    }
    result.summary = summarize_step(replay(result.lowered, result.scenario).trace);
    result.parts = step_parts(result.summary);
    for (std::size_t k = 0; k < kResources.size(); ++k) {
        progress.show(fmt::format("explain: 10% more {}", name(kResources[k])),
                      static_cast<double>(k) / static_cast<double>(kResources.size()));
        result.gains.push_back(gain_of(kResources[k], scenario, result));
    }
    return result;
}

std::string explanation_text(const Explanation& e) {
    const Scenario& s = e.scenario;
    std::string text =
        fmt::format("{}: {}, {} tokens, {} x {} on {}, {}\n", s.name, s.model.name, s.sequence.value * s.batch,
                    s.cluster.gpus(), s.cluster.gpu.name, s.cluster.name, choices_text(s));
    if (!e.refusals.empty()) {
        text += "  does not fit:\n";
        for (const std::string& reason : e.refusals) text += "  - " + reason + "\n";
        return text;
    }
    const Seconds step = e.summary.step;
    text += fmt::format("  step             {}, mostly {}\n", format(step), e.parts.front().name);
    for (const StepPart& part : e.parts)
        if (part.time / step >= 0.0005)
            text += fmt::format("  {:>6.1f}%  {:>9}  {}\n", 100 * (part.time / step), format(part.time), part.name);
    text += fmt::format("  with 10% more    {:<12}{:>10}  {:>7}  plan\n", "of", "step", "gain");
    for (const ResourceGain& gain : e.gains)
        text += fmt::format("                   {:<12}{:>10}  {:>6.1f}%  {}\n", name(gain.resource), format(gain.step),
                            percent_faster(gain, step), gain.change.empty() ? "the same" : gain.change);
    return text;
}

std::string explanation_json(const Explanation& e) {
    using Json = nlohmann::ordered_json;
    const Policy& p = e.scenario.policy;
    Json json{{"feasible", e.refusals.empty()}, {"reasons", e.refusals}};
    json["plan"] =
        e.refusals.empty()
            ? Json{{"sp", p.sp}, {"pp", p.pp}, {"dp", p.dp}, {"n", p.n}, {"partition", name(p.partition.kind)}}
            : Json(nullptr);
    json["step_seconds"] = e.refusals.empty() ? Json(e.summary.step.value) : Json(nullptr);
    json["parts"] = Json::array();
    for (const StepPart& part : e.parts) json["parts"].push_back({{"name", part.name}, {"seconds", part.time.value}});
    json["more_of_a_resource"] = Json::array();
    for (const ResourceGain& gain : e.gains)
        json["more_of_a_resource"].push_back(
            {{"resource", name(gain.resource)},
             {"factor", kMoreOfAResource},
             {"step_seconds", gain.step.value},
             {"same_plan_seconds", gain.same_plan.value},
             {"re_planned_seconds", gain.re_planned.value > 0 ? Json(gain.re_planned.value) : Json(nullptr)},
             {"gain_percent", percent_faster(gain, e.summary.step)},
             {"change", gain.change}});
    return json.dump();
}

}  // namespace sluice

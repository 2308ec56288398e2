// The search against replaying every candidate: what it chooses is within 2% of the best there is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "planner/search.h"
#include "tests/acceptance/predict.h"

namespace sluice {
namespace {

struct Case {
    const char* name;
    bool copies;  // does the best plan offload?
    const char* text;
};

// Small enough to replay everything. The last one has copies, collectives across nodes and the network adapter on the
// same PCIe links.
constexpr const char* kOpenPolicy = R"(policy:
  sp: {degree: auto}
  pp: auto
  n: auto
  partition: auto
)";

constexpr Case kCases[] = {
    {"gpt-7b on one node", true, R"(
model: gpt-7b
cluster: {use: a100-sppo, nodes: 1, gpu_memory: 40 GiB}
calibration: a100-published
sequence: 48 Ki tokens
)"},
    {"llama3-8b on eight H100", false, R"(
model: llama3-8b
cluster: h100x8
calibration: h100-published
sequence: 32 Ki tokens
)"},
    {"gpt-7b on two nodes, shared PCIe", true, R"(
model: gpt-7b
cluster: {use: a100-sppo, nodes: 2, gpu_memory: 18 GiB}
calibration: a100-published
sequence: 48 Ki tokens
)"},
};

struct Replayed {
    Seconds step{};  // 0: it does not fit
    bool copies = false;
};

Replayed replayed(const Scenario& scenario) {
    const Lowered lowered = lower(scenario);
    if (!lowered.feasible()) return {};
    SimulateOptions options;
    options.kernels = options.memory = false;
    const bool copies = std::any_of(lowered.schedule.ops.begin(), lowered.schedule.ops.end(),
                                    [](const Op& op) { return op.lane.kind == LaneKind::kCopyOut; });
    return {simulate(lowered.schedule, scenario.cluster, scenario.calibration, options).trace.step, copies};
}

TEST(SearchAgainstExhaustiveReplay, ChosenPlanIsWithinTwoPercentOfTheBest) {
    for (const Case& c : kCases) {
        const Scenario scenario = parse_scenario(std::string(c.text) + kOpenPolicy, c.name,
                                                 std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios");
        std::size_t finalists = 0, possible = 0;
        Seconds chosen{1e300}, best{1e300}, worst{};
        std::string chosen_label, best_label;
        bool best_copies = false;
        for (const Candidate& candidate : search(scenario)) {
            if (candidate.verdict == Verdict::kImpossible) continue;
            ++possible;
            const auto [step, copies] = replayed(candidate.scenario);
            if (step.value == 0) {
                EXPECT_EQ(candidate.verdict == Verdict::kFinalist, false) << candidate.label();
                continue;
            }
            EXPECT_NE(candidate.verdict, Verdict::kInfeasible) << c.name << ": " << candidate.label();
            if (step < best) best = step, best_label = candidate.label(), best_copies = copies;
            worst = std::max(worst, step);
            if (candidate.verdict != Verdict::kFinalist) continue;
            ++finalists;
            if (step < chosen) chosen = step, chosen_label = candidate.label();
        }
        EXPECT_GE(possible, 10 * finalists) << c.name;
        EXPECT_GE(worst / best, 1.5) << c.name;
        EXPECT_EQ(best_copies, c.copies) << c.name;
        EXPECT_LE(chosen / best, 1.02) << c.name << ": chose " << chosen_label << ", best is " << best_label;
        RecordProperty(c.name, fmt::format("{} candidates, {:.4f} of the best", possible, chosen / best));
        std::cout << fmt::format(
            "{}: {} candidates, {} finalists, chose {} ({:.3f} s), best {} ({:.3f} s), worst {:.3f} s\n", c.name,
            possible, finalists, chosen_label, chosen.value, best_label, best.value, worst.value);
    }
}

}  // namespace
}  // namespace sluice

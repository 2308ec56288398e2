// The closed loop with a real throttle: trains a small model, holds copies up so that they just hide, halves that rate
// in mid-run, and prints step by step what was exposed and what the adaptation did about it. docs/adaptation.md has a
// run.
//
//   adapt_bench DATA [GPU_MEMORY_MIB]
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "base/error.h"
#include "base/format_units.h"
#include "tools/sluice/adapt_placement.h"
#include "tools/sluice/predicted_trace.h"
#include "tools/sluice/training_run.h"
#include "traces/step_summary.h"

namespace sluice {
namespace {

constexpr double kMargin = 1.2;
constexpr std::int64_t kPatience = 3, kSettle = 12, kThrottled = 20;

// Wide enough that an op takes a millisecond or more: what the threads need to hand over does not count.
Scenario bench_scenario(std::int64_t memory_mib) {
    const std::string text = fmt::format(R"(name: throttled
model: {{layers: 4, hidden: 256, heads: 4, kv_heads: 4, head_dim: 64, ffn: 768, vocabulary: 256, activation: swiglu,
  norm: rmsnorm, positions: rope, bias: false, tied_embeddings: false}}
cluster: {{use: tiny-cpu, gpus_per_node: 1, gpu_memory: "{} MiB"}}
calibration: tiny-cpu
sequence: 1 Ki tokens
precision: {{weights: fp32, gradients: fp32, kv_gradients: fp32}}
policy: {{sp: {{kind: megatron, degree: 1}}, pp: 1, n: 8, placement: three-way, granularity: layer}}
)",
                                         memory_mib);
    return parse_scenario(text, "adapt_bench", ".");
}

PlannedRun planned(const Scenario& s) {
    std::vector<std::string> refused;
    std::optional<PlannedRun> run = plan_run(s, refused);
    if (!run) throw InputError(refused.front());
    return std::move(*run);
}

std::int64_t recomputed(const Plan& plan) {
    std::int64_t sum = 0;
    for (const StagePlan& stage : plan.stages)
        for (const std::int64_t r : stage.recomputed) sum += r;
    return sum;
}

double predicted_exposure(const PlannedRun& run) {
    const StepSummary s = summarize_step(predicted_trace(run));
    return (s.mean.exposed_d2h + s.mean.exposed_h2d) / s.step;
}

StepRates measured_rates(const PlannedRun& run, const TrainingOptions& options) {
    std::vector<std::string> notes;
    TrainingRun training(run, options, notes);
    std::vector<StepRates> steps;
    for (int k = 0; k < 6; ++k) {
        training.step();
        steps.push_back(step_rates(run.scenario, run.schedule, training.trace()));
    }
    return median_rates(steps);
}

// The lowest rate of copies at which the plan recomputes nothing and replays without exposed copies.
double least_hiding_rate(const Scenario& s, double compute, double high) {
    double low = high / 1024;
    for (int k = 0; k < 12; ++k) {
        const double middle = std::sqrt(low * high);
        const PlannedRun run = planned(with_rates(s, {BytesPerSecond{middle}, BytesPerSecond{middle}, compute}));
        (recomputed(run.plan) == 0 && predicted_exposure(run) == 0 ? high : low) = middle;
    }
    return high;
}

void limit(TrainingRun& run, double rate) {
    for (const LaneKind lane : {LaneKind::kCopyOut, LaneKind::kCopyIn}) run.limit_copies(lane, BytesPerSecond{rate});
}

void steps(TrainingRun& run, Adaptation& adaptation, std::int64_t count) {
    for (std::int64_t k = 0; k < count && !run.done(); ++k) {
        const StepRecord r = run.step();
        fmt::print(
            "step {:>2}  {:>8}  exposed copies {:5.1f}%  offloaded {:>8}  recomputed layers {:>2}  loss {:.6f}\n",
            r.report.step, format(r.report.time), 100 * r.worst_exposed_copies,
            format(summarize_step(run.trace()).offloaded), recomputed(run.planned().plan), r.report.loss.value());
        const Adaptation::Decision decision = adaptation.after_step(run, r);
        for (const std::string& advice : decision.advice) fmt::print("         {}\n", advice);
        if (!decision.reason.empty()) fmt::print("         {}\n", decision.reason);
    }
}

int bench(const char* data, std::int64_t memory_mib) {
    TrainingOptions options;
    options.data = data;
    options.steps = kSettle + kThrottled;
    options.learning_rate = {1e-3F, 1e-4F, 2, options.steps};
    const Scenario scenario = bench_scenario(memory_mib);
    const StepRates rates = measured_rates(planned(scenario), options);
    const double hiding = kMargin * least_hiding_rate(scenario, rates.compute, 4e9);
    const Scenario before = with_rates(scenario, {BytesPerSecond{hiding}, BytesPerSecond{hiding}, rates.compute});
    PlannedRun first = planned(before), unchanged = first;
    const auto half = [&](const Scenario& s) {
        return with_rates(s, {BytesPerSecond{hiding / 2}, BytesPerSecond{hiding / 2}, 1});
    };
    unchanged.scenario = half(before);
    fmt::print("compute {:.2f} times the calibration's; copies held up to {}, which is {} times what just hides\n",
               rates.compute, format(BytesPerSecond{hiding}), kMargin);
    fmt::print("predicted: exposed {:.1f}%; at half the rate {:.1f}% with the same placement, {:.1f}% with a new one\n",
               100 * predicted_exposure(first), 100 * predicted_exposure(unchanged),
               100 * predicted_exposure(planned(half(before))));

    std::vector<std::string> notes;
    TrainingRun run(std::move(first), options, notes);
    Adaptation adaptation(kPatience, run.planned().scenario);
    limit(run, hiding);
    steps(run, adaptation, kSettle);
    fmt::print("         --- copies held up to {} from here on\n", format(BytesPerSecond{hiding / 2}));
    limit(run, hiding / 2);
    steps(run, adaptation, kThrottled);
    return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
    if (argc < 2 || argc > 3) return fmt::print(stderr, "usage: adapt_bench DATA [GPU_MEMORY_MIB]\n"), 2;
    std::int64_t memory = 92;
    if (argc == 3) std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), memory);
    try {
        return sluice::bench(argv[1], memory);
    } catch (const std::exception& error) {
        return fmt::print(stderr, "{}\n", error.what()), 2;
    }
}

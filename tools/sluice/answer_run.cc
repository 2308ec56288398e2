#include "tools/sluice/answer_run.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/format_units.h"
#include "models/pinned_memory.h"

namespace sluice {
namespace {

// "45.0 s", "12.5 min", "3.40 h", "16.2 days"
std::string duration(Seconds time) {
    if (!std::isfinite(time.value)) return "for ever";
    if (time.value < 120) return format(time);
    if (time.value < 2 * 3600) return fmt::format("{:.1f} min", time.value / 60);
    if (time.value < 72 * 3600) return fmt::format("{:.2f} h", time.value / 3600);
    return fmt::format("{:.1f} days", time.value / 86400);
}

std::string total_text(const RunAnswer& answer) {
    const RunCost& cost = answer.cost;
    if (!cost.finishes)
        return "never: a failure costs more time than lies between two; checkpoint more often, or use faster storage";
    return fmt::format("{}: work {}, checkpoints {}, failures {}, initialisation {}", duration(cost.total),
                       duration(cost.work), duration(cost.checkpoints), duration(cost.failures),
                       duration(cost.initialisation));
}

}  // namespace

RunAnswer answer_run(const Scenario& s, const Lowered& lowered, Seconds step, Tokens tokens) {
    RunAnswer answer;
    answer.tokens = tokens;
    RunStep& run = answer.step;
    run.time = step;
    run.tokens = s.sequence * s.batch;
    run.gpus = s.cluster.gpus(), run.nodes = s.cluster.nodes;
    run.state = checkpoint_bytes(s);
    const PinnedMemory pinned = place_pinned(pinned_bytes(lowered.schedule, s.cluster.host.allocator), s.cluster);
    const std::vector<Bytes>& fullest = pinned.by_node[pinned.largest_node()];
    run.pinned_per_node = std::accumulate(fullest.begin(), fullest.end(), Bytes{});
    run.pin_time = pin_time(pinned, s.cluster);
    answer.cost = run_cost(tokens, run, s.run);
    return answer;
}

std::string run_text(const Scenario& s, const RunAnswer& answer) {
    const RunCost& cost = answer.cost;
    const RunTerms& terms = s.run;
    std::string text = fmt::format("  run              {} tokens: {} steps of {} tokens\n", answer.tokens.value,
                                   cost.steps, answer.step.tokens.value);
    text += fmt::format("  time             {}\n", total_text(answer));
    if (cost.finishes) text += fmt::format("  GPU-hours        {:.6g} on {} GPUs\n", cost.gpu_hours, answer.step.gpus);
    text += fmt::format("  pinned           {} per node, pinned in {}\n", format(answer.step.pinned_per_node),
                        duration(cost.pinning));
    text += fmt::format("  checkpoints      {} of {}, {} each at {} per node, every {}; Young's interval {}\n",
                        cost.checkpoint_count, format(answer.step.state), duration(cost.checkpoint),
                        format(terms.storage_rate), duration(terms.checkpoint_interval), duration(cost.best_interval));
    text +=
        fmt::format("  failures         {:.3g} expected, one in {}: MTBF of a GPU {:.6g} h; restart {}, start-up {}\n",
                    cost.finishes ? cost.failure_count : 0.0, duration(cost.mtbf), terms.mtbf_per_gpu.value / 3600,
                    duration(terms.restart), duration(terms.startup));
    return text;
}

std::string run_json(const Scenario& s, const RunAnswer& answer) {
    using Json = nlohmann::ordered_json;
    const RunCost& cost = answer.cost;
    const RunTerms& terms = s.run;
    const auto finite = [&](double value) { return cost.finishes ? Json(value) : Json(nullptr); };
    const Json json{{"tokens", answer.tokens.value},
                    {"steps", cost.steps},
                    {"finishes", cost.finishes},
                    {"total_seconds", finite(cost.total.value)},
                    {"gpu_hours", finite(cost.gpu_hours)},
                    {"work_seconds", cost.work.value},
                    {"initialisation_seconds", cost.initialisation.value},
                    {"pinning_seconds", cost.pinning.value},
                    {"checkpoints_seconds", cost.checkpoints.value},
                    {"checkpoints", cost.checkpoint_count},
                    {"checkpoint_bytes", answer.step.state.value},
                    {"checkpoint_seconds", cost.checkpoint.value},
                    {"young_interval_seconds", cost.best_interval.value},
                    {"failures_seconds", finite(cost.failures.value)},
                    {"failures", finite(cost.failure_count)},
                    {"mtbf_seconds", cost.mtbf.value},
                    {"pinned_bytes_per_node", answer.step.pinned_per_node.value},
                    {"terms",
                     {{"storage_bytes_per_second", terms.storage_rate.value},
                      {"checkpoint_interval_seconds", terms.checkpoint_interval.value},
                      {"mtbf_per_gpu_seconds", terms.mtbf_per_gpu.value},
                      {"restart_seconds", terms.restart.value},
                      {"startup_seconds", terms.startup.value},
                      {"pin_bytes_per_second", terms.pin_rate.value}}}};
    return json.dump();
}

}  // namespace sluice

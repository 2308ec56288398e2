#include "tools/sluice/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/format_units.h"
#include "models/device_memory.h"
#include "models/model_flops.h"
#include "scenarios/policy_names.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t gpus(const Scenario& s) { return s.ranks(); }

Json plan_object(const Scenario& s, const Plan& plan) {
    Json json{{"sp", s.policy.sp}, {"sp_kind", name(s.policy.sp_kind)}, {"pp", s.policy.pp}, {"dp", s.policy.dp}, {"n", s.policy.n}};
    if (s.policy.dp > 1) json["zero"] = static_cast<int>(s.policy.zero);
    json["lengths"] = Json::array();
    for (const Subsequence& sub : plan.subsequences) json["lengths"].push_back(sub.length.value);
    json["alpha"] = Json::array();
    for (const StagePlan& stage : plan.stages) {
        Json row = Json::array();
        for (std::size_t i = 0; i < stage.offloaded.size(); ++i) row.push_back(stage.alpha(i));
        json["alpha"].push_back(std::move(row));
    }
    json["recompute"] = name(s.policy.recompute);
    json["recomputed_layers"] = Json::array();
    for (const StagePlan& stage : plan.stages)
        json["recomputed_layers"].push_back(stage.recomputes() ? stage.recomputed
                                                               : std::vector(stage.activation.size(), std::int64_t{0}));
    json["kv_offloaded_layers"] = Json::array();
    for (const StagePlan& stage : plan.stages) json["kv_offloaded_layers"].push_back(stage.kv_offloaded);
    return json;
}

struct Rates {
    double tokens_per_second, tokens_per_gpu_second, mfu;
};

Rates rates(const Scenario& s, Seconds step) {
    const double tokens = static_cast<double>(s.sequence.value * s.batch) / step.value;
    const FlopsPerSecond achieved = step_model_flops(s) / step;
    const auto count = static_cast<double>(gpus(s));
    return {tokens, tokens / count, achieved / (s.cluster.gpu.peak * count)};
}

// The pool with the largest arena: what must be allocated decides, not what lives in it.
const PoolPeak* largest(const std::vector<PoolPeak>& pools) {
    const auto it = std::max_element(pools.begin(), pools.end(),
                                     [](const PoolPeak& a, const PoolPeak& b) { return a.arena < b.arena; });
    return it == pools.end() ? nullptr : &*it;
}

Json kinds_object(const PoolPeak& pool) {
    Json json = Json::object();
    for (const auto& [kind, bytes] : pool.kinds) json[kind] = bytes.value;
    json["unused"] = (pool.arena - pool.live).value;
    return json;
}

std::string kinds_text(const PoolPeak& pool) {
    std::vector<std::pair<std::string, Bytes>> kinds = pool.kinds;
    std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string text;
    for (const auto& [kind, bytes] : kinds) text += fmt::format("{} {}, ", kind, format(bytes));
    return text + fmt::format("unused {}", format(pool.arena - pool.live));
}

constexpr const char* kSummaryKeys[] = {"step_seconds",
                                        "tokens_per_second",
                                        "tokens_per_gpu_second",
                                        "mfu",
                                        "bubble_fraction",
                                        "bubble_over_work",
                                        "exposed_d2h_seconds",
                                        "exposed_h2d_seconds",
                                        "exposed_comm_seconds",
                                        "peak_gpu_bytes",
                                        "peak_gpu_rank",
                                        "peak_gpu_kinds",
                                        "gpu_beyond_arena_bytes",
                                        "peak_host_bytes_per_node",
                                        "peak_host_bytes_per_numa",
                                        "pin_seconds",
                                        "offloaded_bytes",
                                        "ops",
                                        "activities"};

Bytes pinned_by(const PinnedMemory& pinned, std::size_t rank) {
    const std::vector<Bytes>& by_numa = pinned.by_rank[rank];
    return std::accumulate(by_numa.begin(), by_numa.end(), Bytes{});
}

// Of the largest node.
void add_pinned(Json& json, const Prediction& p) {
    Json by_numa = Json::array();
    Bytes node{};
    for (const Bytes bytes : p.pinned.by_node[p.pinned.largest_node()]) {
        by_numa.push_back(bytes.value);
        node += bytes;
    }
    json["peak_host_bytes_per_node"] = node.value;
    json["peak_host_bytes_per_numa"] = std::move(by_numa);
    if (const auto time = pin_time(p.pinned, p.scenario.cluster)) json["pin_seconds"] = time->value;
}

void add_prediction(Json& json, const Prediction& p) {
    const StepSummary& summary = p.summary;
    const Rates rate = rates(p.scenario, summary.step);
    json["step_seconds"] = summary.step.value;
    json["tokens_per_second"] = rate.tokens_per_second;
    json["tokens_per_gpu_second"] = rate.tokens_per_gpu_second;
    json["mfu"] = rate.mfu;
    json["bubble_fraction"] = summary.bubble.of_step;
    json["bubble_over_work"] = summary.bubble.of_work;
    json["exposed_d2h_seconds"] = summary.mean.exposed_d2h.value;
    json["exposed_h2d_seconds"] = summary.mean.exposed_h2d.value;
    json["exposed_comm_seconds"] = summary.mean.exposed_comm.value;
    if (const PoolPeak* pool = largest(summary.device_peaks)) {
        json["peak_gpu_bytes"] = pool->arena.value;
        json["peak_gpu_rank"] = pool->owner;
        json["peak_gpu_kinds"] = kinds_object(*pool);
        json["gpu_beyond_arena_bytes"] = beyond_arena_bytes(p.scenario, pinned_by(p.pinned, pool->owner)).value;
    }
    add_pinned(json, p);
    json["offloaded_bytes"] = summary.offloaded.value;
    json["ops"] = summary.ops;
    json["activities"] = p.simulation->activities;
}

std::string alpha_range(const Plan& plan) {
    if (plan.stages.empty()) return "";  // a schedule from a file has no plan
    double low = 1, high = 0;
    for (const StagePlan& stage : plan.stages)
        for (std::size_t i = 0; i < stage.offloaded.size(); ++i)
            low = std::min(low, stage.alpha(i)), high = std::max(high, stage.alpha(i));
    return fmt::format(", alpha {:.3f} to {:.3f}", low, high);
}

std::string recomputed_text(const Scenario& s, const Plan& plan) {
    std::int64_t again = 0, all = 0;
    for (const StagePlan& stage : plan.stages) {
        all += stage.layers * static_cast<std::int64_t>(plan.subsequences.size());
        for (const std::int64_t layers : stage.recomputed) again += layers;
    }
    if (again == 0) return "";
    return fmt::format("  recomputed       {} of {} layer activations{}\n", again, all,
                       s.recomputes_layers() ? ", all but their block inputs" : "");
}

std::string replicas_text(const Scenario& s) {
    return s.policy.dp == 1 ? "" : fmt::format(" x dp {} (zero {})", s.policy.dp, static_cast<int>(s.policy.zero));
}

std::string heading(const Scenario& s) {
    return fmt::format("{}: {}, {} tokens, {} x {} on {}, sp {} ({}) x pp {}{}, n {}\n", s.name, s.model.name,
                       s.sequence.value * s.batch, gpus(s), s.cluster.gpu.name, s.cluster.name, s.policy.sp,
                       name(s.policy.sp_kind), s.policy.pp, replicas_text(s), s.policy.n);
}

std::string lanes_text(const StepSummary& summary) {
    const LaneTime& m = summary.mean;
    const auto percent = [&](Seconds t) { return summary.step.value > 0 ? 100 * (t / summary.step) : 0; };
    std::string text = fmt::format(
        "  compute lanes    work {:.2f}%, warm-up {:.2f}, bubble {:.2f}, drain {:.2f}, exposed d2h {:.2f}, h2d {:.2f}, "
        "communication {:.2f}, memory wait {:.2f}\n",
        percent(m.work), percent(m.warm_up), percent(m.bubble), percent(m.drain), percent(m.exposed_d2h),
        percent(m.exposed_h2d), percent(m.exposed_comm), percent(m.memory_wait));
    text += fmt::format("  bubble           {:.2f}% of the step, {:.2f}% of the work (warm-up, bubble and drain)\n",
                        100 * summary.bubble.of_step, 100 * summary.bubble.of_work);
    Seconds all{};
    for (const LabelTime& label : summary.kernels) all += label.time;
    if (all.value > 0) {
        text += "  kernels         ";
        for (std::size_t i = 0; i < std::min<std::size_t>(summary.kernels.size(), 6); ++i)
            text += fmt::format(" {} {:.1f}%{}", summary.kernels[i].label, 100 * (summary.kernels[i].time / all),
                                i + 1 < std::min<std::size_t>(summary.kernels.size(), 6) ? "," : "\n");
    }
    return text;
}

std::string memory_text(const StepSummary& summary) {
    std::string text;
    if (const PoolPeak* pool = largest(summary.device_peaks))
        text += fmt::format("  GPU memory       {} of {} on rank {}, most live at op {}: {}\n", format(pool->arena),
                            format(pool->capacity), pool->owner, index(pool->op), kinds_text(*pool));
    return text;
}

// What lies beside the largest arena.
std::string beyond_text(const Prediction& p) {
    const PoolPeak* pool = largest(p.summary.device_peaks);
    if (pool == nullptr) return "";
    const Gpu& gpu = p.scenario.cluster.gpu;
    const Bytes pinned = pinned_by(p.pinned, pool->owner), all = beyond_arena_bytes(p.scenario, pinned);
    if (all.value == 0) return "";
    std::string text = fmt::format("  beside the arena {}", format(all));
    if (all > gpu.reserved) {
        const Bytes tables = page_table_bytes(gpu, pinned);
        text += fmt::format(
            ": context, libraries and engine {}, what grows with tokens {}, page tables of what is pinned {}",
            format(gpu.reserved), format(all - gpu.reserved - tables), format(tables));
    }
    return text + "\n";
}

std::string pinned_text(const PinnedMemory& pinned, const Cluster& cluster) {
    const std::size_t node = pinned.largest_node();
    Bytes all{};
    std::string by_numa;
    for (const Bytes bytes : pinned.by_node[node]) {
        all += bytes;
        by_numa += (by_numa.empty() ? "" : " + ") + format(bytes);
    }
    std::string text = fmt::format("  host memory      {} of {} pinned on node {}", format(all),
                                   format(cluster.host.usable()), node);
    if (all.value > 0 && cluster.host.numa_nodes > 1) text += fmt::format(", by NUMA node {}", by_numa);
    if (const auto time = pin_time(pinned, cluster); time && time->value > 0)
        text += fmt::format("; pinning takes {} once, at start-up", format(*time));
    return text + "\n";
}

std::string other_job_text(const OtherJob& job) {
    if (job.host_memory.value == 0 && (job.d2h + job.h2d).value == 0) return "";
    return fmt::format("  other job        holds {} of every node, copies {} out and {} in at every NUMA node\n",
                       format(job.host_memory), format(job.d2h), format(job.h2d));
}

// Of a trace, which does not say where in a node memory lies.
std::string host_pool_text(const StepSummary& summary) {
    const PoolPeak* pool = largest(summary.host_peaks);
    return pool == nullptr ? ""
                           : fmt::format("  host memory      {} of {} pinned on node {}\n", format(pool->arena),
                                         format(pool->capacity), pool->owner);
}

}  // namespace

std::string plan_json(const Scenario& s, const Lowered& lowered) {
    Json json{{"feasible", lowered.feasible()}, {"reasons", lowered.reasons}, {"notes", lowered.plan.notes}};
    json["ops"] = lowered.schedule.ops.size();
    json["plan"] = plan_object(s, lowered.plan);
    return json.dump(2);
}

std::string infeasible_text(const Scenario& s, const Lowered& lowered) {
    std::string text = heading(s) + "  does not fit:\n";
    for (const std::string& reason : lowered.reasons) text += "  - " + reason + "\n";
    return text;
}

std::string prediction_json(const Prediction& p) {
    Json json{{"feasible", p.lowered.feasible()}, {"reasons", p.lowered.reasons}};
    for (const char* key : kSummaryKeys) json[key] = nullptr;
    if (p.simulation != nullptr) add_prediction(json, p);
    json["wall_seconds"] = Json{{"lower", p.wall.lower}, {"verify", p.wall.verify}, {"replay", p.wall.replay}};
    json["notes"] = p.lowered.plan.notes;
    json["plan"] = plan_object(p.scenario, p.lowered.plan);
    return json.dump(2);
}

std::string prediction_text(const Prediction& p) {
    const Rates rate = rates(p.scenario, p.summary.step);
    std::string text = heading(p.scenario);
    text += fmt::format("  step             {}: {:.0f} tokens/s, {:.1f} per GPU, MFU {:.1f}%\n", format(p.summary.step),
                        rate.tokens_per_second, rate.tokens_per_gpu_second, 100 * rate.mfu);
    text += lanes_text(p.summary) + memory_text(p.summary) + beyond_text(p) + pinned_text(p.pinned, p.scenario.cluster) +
            other_job_text(p.scenario.other_job);
    text += fmt::format("  offloaded        {} in all{}\n", format(p.summary.offloaded), alpha_range(p.lowered.plan));
    text += recomputed_text(p.scenario, p.lowered.plan);
    text += fmt::format(
        "  schedule         {} ops, {} activities; lowered in {:.2f} s, verified in {:.2f} s, replayed in {:.2f} s\n",
        p.summary.ops, p.simulation->activities, p.wall.lower, p.wall.verify, p.wall.replay);
    for (const std::string& note : p.lowered.plan.notes) text += "  note             " + note + "\n";
    return text;
}

std::string trace_json(const Trace& trace, const StepSummary& summary) {
    Json json{{"producer", trace.provenance.producer},
              {"scenario", trace.provenance.scenario},
              {"schedule_fingerprint", trace.provenance.schedule_fingerprint},
              {"calibration", trace.provenance.calibration},
              {"hardware", trace.provenance.hardware},
              {"omissions", trace.provenance.omissions},
              {"step_seconds", summary.step.value},
              {"ops", summary.ops},
              {"bubble_fraction", summary.bubble.of_step},
              {"bubble_over_work", summary.bubble.of_work}};
    json["ranks"] = Json::array();
    for (const LaneTime& t : summary.lanes)
        json["ranks"].push_back({{"rank", index(t.rank)},
                                 {"work_seconds", t.work.value},
                                 {"warm_up_seconds", t.warm_up.value},
                                 {"bubble_seconds", t.bubble.value},
                                 {"exposed_d2h_seconds", t.exposed_d2h.value},
                                 {"exposed_h2d_seconds", t.exposed_h2d.value},
                                 {"exposed_comm_seconds", t.exposed_comm.value},
                                 {"memory_wait_seconds", t.memory_wait.value},
                                 {"drain_seconds", t.drain.value}});
    json["kernel_seconds"] = Json::object();
    for (const LabelTime& label : summary.kernels) json["kernel_seconds"][label.label] = label.time.value;
    return json.dump(2);
}

std::string trace_text(const Trace& trace, const StepSummary& summary) {
    const Provenance& from = trace.provenance;
    std::string text = fmt::format("{} of {} (schedule {}), {}, calibration {}\n", from.producer, from.scenario,
                                   from.schedule_fingerprint, from.hardware, from.calibration);
    text += fmt::format("  step             {}, {} ops, {} ranks\n", format(summary.step), summary.ops,
                        summary.lanes.size());
    text += lanes_text(summary) + memory_text(summary) + host_pool_text(summary);
    for (const std::string& omission : from.omissions) text += "  not modelled     " + omission + "\n";
    return text;
}

}  // namespace sluice

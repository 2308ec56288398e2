// What `sluice simulate A B` prints.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/format_units.h"
#include "tools/sluice/job_pair.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

bool has_gpus(const PairedJob& job, const Cluster& cluster) {
    return job.first_gpu + job.scenario.cluster.gpus_per_node <= cluster.gpus_per_node;
}

std::string gpus_text(const PairedJob& job, const Cluster& cluster) {
    const std::int64_t first = job.first_gpu, count = job.scenario.cluster.gpus_per_node;
    if (!has_gpus(job, cluster)) return fmt::format("{} GPUs", count);
    return count == 1 ? fmt::format("GPU {}", first) : fmt::format("GPUs {}-{}", first, first + count - 1);
}

std::string step_text(const PairedJob& job) {
    if (!job.alone) return "";
    std::string text = fmt::format("    step             {} alone", format(job.alone->step));
    if (job.together)
        text += fmt::format(", {} together, mean of {} steps: {:.1f}% slower", format(job.together->step),
                            job.together->steps, 100 * std::max(0.0, job.slowdown()));
    text += fmt::format("\n    exposed copies   d2h {}, h2d {} alone", format(job.alone->exposed_d2h),
                        format(job.alone->exposed_h2d));
    if (job.together)
        text += fmt::format("; d2h {}, h2d {} together", format(job.together->exposed_d2h),
                            format(job.together->exposed_h2d));
    return text + "\n";
}

std::string pinned_text(const PairedJob& job, const Cluster& cluster) {
    if (job.pinned.empty()) return "";
    std::string text;
    Bytes all{};
    for (const Bytes bytes : job.pinned) {
        text += (text.empty() ? "" : " + ") + format(bytes);
        all += bytes;
    }
    return fmt::format("    host memory      {} of {} usable pinned on a node{}\n", format(all),
                       format(cluster.host.usable()), job.pinned.size() > 1 ? ", by NUMA node " + text : "");
}

Json job_object(const PairedJob& job, const Cluster& cluster) {
    const std::int64_t first = job.first_gpu, count = job.scenario.cluster.gpus_per_node;
    Json json{{"scenario", job.scenario.name}, {"nodes", job.scenario.cluster.nodes}};
    json["gpus_of_node"] = has_gpus(job, cluster) ? Json::array() : Json(nullptr);
    for (std::int64_t g = first; g < first + count && has_gpus(job, cluster); ++g) json["gpus_of_node"].push_back(g);
    const auto seconds = [](const std::optional<JobTimes>& times, Seconds JobTimes::*part) {
        return times ? Json((*times.*part).value) : Json(nullptr);
    };
    json["step_alone_seconds"] = seconds(job.alone, &JobTimes::step);
    json["step_together_seconds"] = seconds(job.together, &JobTimes::step);
    json["slowdown"] = job.together ? Json(job.slowdown()) : Json(nullptr);
    json["steps"] = job.together ? Json(job.together->steps) : Json(nullptr);
    json["exposed_d2h_alone_seconds"] = seconds(job.alone, &JobTimes::exposed_d2h);
    json["exposed_d2h_together_seconds"] = seconds(job.together, &JobTimes::exposed_d2h);
    json["exposed_h2d_alone_seconds"] = seconds(job.alone, &JobTimes::exposed_h2d);
    json["exposed_h2d_together_seconds"] = seconds(job.together, &JobTimes::exposed_h2d);
    json["peak_host_bytes_per_numa"] = nullptr;
    if (!job.pinned.empty()) {
        json["peak_host_bytes_per_numa"] = Json::array();
        for (const Bytes bytes : job.pinned) json["peak_host_bytes_per_numa"].push_back(bytes.value);
    }
    return json;
}

}  // namespace

std::string pair_text(const JobPair& pair) {
    std::string text = fmt::format("two jobs on {} node{} of {}, {} x {} each\n", pair.cluster.nodes,
                                   pair.cluster.nodes == 1 ? "" : "s", pair.cluster.name, pair.cluster.gpus_per_node,
                                   pair.cluster.gpu.name);
    for (std::size_t j = 0; j < pair.jobs.size(); ++j) {
        const PairedJob& job = pair.jobs[j];
        const Scenario& s = job.scenario;
        text += fmt::format("  {}: {}: {}, {} tokens, sp {} x pp {}{}, n {}, on {} of {} node{}\n", j == 0 ? "A" : "B",
                            s.name, s.model.name, s.sequence.value * s.batch, s.policy.sp, s.policy.pp,
                            s.policy.dp > 1 ? fmt::format(" x dp {}", s.policy.dp) : "", s.policy.n,
                            gpus_text(job, pair.cluster), s.cluster.nodes, s.cluster.nodes == 1 ? "" : "s");
        text += step_text(job) + pinned_text(job, pair.cluster);
    }
    if (pair.reasons.empty())
        return text + fmt::format("  accepted: neither is more than {:g}% slower\n", 100 * pair.max_slowdown);
    text += "  refused:\n";
    for (const std::string& reason : pair.reasons) text += "  - " + reason + "\n";
    return text;
}

std::string pair_json(const JobPair& pair) {
    Json json{{"accepted", pair.reasons.empty()},  {"reasons", pair.reasons},
              {"max_slowdown", pair.max_slowdown}, {"cluster", pair.cluster.name},
              {"nodes", pair.cluster.nodes},       {"gpus_per_node", pair.cluster.gpus_per_node}};
    json["jobs"] = Json::array();
    for (const PairedJob& job : pair.jobs) json["jobs"].push_back(job_object(job, pair.cluster));
    return json.dump(2);
}

}  // namespace sluice

#include "tools/sluice/job_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/format_units.h"

namespace sluice {
namespace {

constexpr const char* kNames[] = {"A", "B"};

std::int64_t gpus_of_node(const Cluster& c) { return c.gpus_per_node + c.spare_gpus; }

// What two clusters do not have in common, or "".
std::string difference(const Cluster& a, const Cluster& b) {
    if (gpus_of_node(a) != gpus_of_node(b))
        return fmt::format("GPUs of a node ({} and {})", gpus_of_node(a), gpus_of_node(b));
    if (a.gpu != b.gpu) return "gpu";
    if (a.pcie != b.pcie) return "pcie";
    if (a.host != b.host) return "host (memory, or what another job takes of it)";
    if (a.nvlink != b.nvlink) return "nvlink";
    if (a.nodes > 1 && b.nodes > 1 && a.network != b.network) return "network";
    return "";
}

void expect_alike(const Scenario& a, const Scenario& b) {
    if (const std::string what = difference(a.cluster, b.cluster); !what.empty())
        throw InputError(fmt::format(
            "sluice simulate: {} and {} are not on nodes of one kind: cluster {} and cluster {} differ in {}", a.name,
            b.name, a.cluster.name, b.cluster.name, what));
    if (!(a.calibration == b.calibration))
        throw InputError(
            fmt::format("sluice simulate: {} and {} have different calibrations, {} and {}, for the same GPUs", a.name,
                        b.name, a.calibration.name, b.calibration.name));
}

Cluster whole_nodes(const Cluster& a, const Cluster& b) {
    Cluster whole = a.nodes >= b.nodes ? a : b;
    whole.gpus_per_node = gpus_of_node(whole);
    whole.spare_gpus = 0;
    return whole;
}

std::vector<Rank> gpus_of(const PairedJob& job, const Cluster& cluster) {
    const std::int64_t own = job.scenario.cluster.gpus_per_node;
    std::vector<Rank> gpus;
    for (std::size_t r = 0; r < job.lowered.schedule.ranks.size(); ++r) {
        const auto rank = static_cast<std::int64_t>(r);
        gpus.push_back(
            id_at<Rank>(static_cast<std::size_t>(rank / own * cluster.gpus_per_node + job.first_gpu + rank % own)));
    }
    return gpus;
}

std::vector<Job> jobs_of(const JobPair& pair) {
    std::vector<Job> jobs;
    for (const PairedJob& job : pair.jobs) jobs.push_back({&job.lowered.schedule, gpus_of(job, pair.cluster)});
    return jobs;
}

// ---- Do they fit?
// ----------------------------------------------------------------------------------------------------

void check_each(JobPair& pair) {
    for (std::size_t j = 0; j < pair.jobs.size(); ++j)
        for (const std::string& reason : pair.jobs[j].lowered.reasons)
            pair.reasons.push_back(fmt::format("{} does not fit by itself: {}", kNames[j], reason));
}

void check_gpus(JobPair& pair) {
    const std::int64_t a = pair.jobs[0].scenario.cluster.gpus_per_node, b = pair.jobs[1].scenario.cluster.gpus_per_node;
    const std::int64_t all = pair.cluster.gpus_per_node;
    if (a + b <= all) return;
    pair.reasons.push_back(fmt::format("B needs {} GPU{} of each node, {} of {} {} left beside A", b, b == 1 ? "" : "s",
                                       all - a, all, all - a == 1 ? "is" : "are"));
}

// Pinned bytes by GPU of the first `count` jobs.
std::vector<Bytes> pinned_by_gpu(const std::vector<Job>& jobs, std::size_t count, const Cluster& cluster) {
    std::vector<Bytes> by_gpu(static_cast<std::size_t>(cluster.gpus()));
    for (std::size_t j = 0; j < count; ++j) {
        const std::vector<Bytes> pinned = pinned_bytes(*jobs[j].schedule, cluster.host.allocator);
        for (std::size_t r = 0; r < pinned.size(); ++r) by_gpu[index(jobs[j].gpus[r])] = pinned[r];
    }
    return by_gpu;
}

void check_part(const std::string& where, Bytes a, Bytes b, Bytes usable, JobPair& pair) {
    if (a + b <= usable) return;
    pair.reasons.push_back(fmt::format("{}: B pins {}, beside A's {} there {} left of {} usable", where, format(b),
                                       format(a), a > usable ? "is nothing" : "are " + format(usable - a),
                                       format(usable)));
}

Bytes sum(const std::vector<Bytes>& bytes) { return std::accumulate(bytes.begin(), bytes.end(), Bytes{}); }

void check_bytes(const std::vector<Job>& jobs, JobPair& pair) {
    const Cluster& c = pair.cluster;
    const PinnedMemory first = place_pinned(pinned_by_gpu(jobs, 1, c), c);
    const PinnedMemory both = place_pinned(pinned_by_gpu(jobs, 2, c), c);
    const auto numa_nodes = static_cast<std::size_t>(c.host.numa_nodes);
    for (PairedJob& job : pair.jobs) job.pinned.assign(numa_nodes, Bytes{});
    const auto keep_most = [](std::vector<Bytes>& most, const std::vector<Bytes>& of_node) {
        if (sum(of_node) > sum(most)) most = of_node;
    };
    for (std::size_t node = 0; node < both.by_node.size(); ++node) {
        const std::vector<Bytes>& a = first.by_node[node];
        std::vector<Bytes> b = both.by_node[node];
        for (std::size_t m = 0; m < numa_nodes; ++m) b[m] -= a[m];
        if (c.host.numa == NumaPlacement::kLocal && numa_nodes > 1) {
            for (std::size_t m = 0; m < numa_nodes; ++m)
                check_part(fmt::format("node {}, NUMA node {}", node, m), a[m], b[m], c.host.usable_per_numa(), pair);
        } else {
            check_part(fmt::format("node {}", node), sum(a), sum(b), c.host.usable(), pair);
        }
        keep_most(pair.jobs[0].pinned, a);
        keep_most(pair.jobs[1].pinned, b);
    }
}

// ---- How fast are they?
// ----------------------------------------------------------------------------------------------

void check_slowdown(JobPair& pair) {
    for (std::size_t j = 0; j < pair.jobs.size(); ++j) {
        const PairedJob& job = pair.jobs[j];
        if (job.slowdown() <= pair.max_slowdown) continue;
        pair.reasons.push_back(fmt::format(
            "{} slows down by {:.1f}%, {} instead of {} a step, more than the {:g}% of --max-slowdown: they share "
            "links of the node",
            kNames[j], 100 * job.slowdown(), format(job.together->step), format(job.alone->step),
            100 * pair.max_slowdown));
    }
}

void simulate_both(const std::vector<Job>& jobs, JobPair& pair, ProgressLine& progress) {
    const Calibration& calibration = pair.jobs[0].scenario.calibration;
    progress.show("replay: each alone");
    const std::vector<JobTimes> alone = simulate_alone(jobs, pair.cluster, calibration);
    for (std::size_t j = 0; j < jobs.size(); ++j) pair.jobs[j].alone = alone[j];
    if (!pair.reasons.empty()) return;
    std::function<void(double)> show;
    if (progress.active()) show = [&](double fraction) { progress.show("replay: together", fraction); };
    const JobsSimulation together = simulate_together(jobs, alone, pair.cluster, calibration, show);
    if (together.jobs.empty()) {
        pair.reasons.push_back(
            fmt::format("steps of {} and {} differ too much: {} million ops would not show the longer one whole",
                        format(alone[0].step), format(alone[1].step), kMostOpsOfJobs >> 20));
        return;
    }
    for (std::size_t j = 0; j < jobs.size(); ++j) pair.jobs[j].together = together.jobs[j];
    check_slowdown(pair);
}

}  // namespace

JobPair pair_jobs(const Scenario& a, const Scenario& b, double max_slowdown, ProgressLine& progress) {
    expect_alike(a, b);
    JobPair pair{whole_nodes(a.cluster, b.cluster), {}, {}, max_slowdown};
    for (const Scenario* scenario : {&a, &b}) {
        progress.show(fmt::format("lower: {}", scenario->name));
        pair.jobs.push_back({*scenario, lower(*scenario), 0, {}, {}, {}});
    }
    pair.jobs[1].first_gpu = a.cluster.gpus_per_node;
    check_each(pair);
    check_gpus(pair);
    if (!pair.reasons.empty()) return pair;
    const std::vector<Job> jobs = jobs_of(pair);
    check_bytes(jobs, pair);
    simulate_both(jobs, pair, progress);
    return pair;
}

}  // namespace sluice

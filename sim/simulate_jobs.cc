#include "sim/simulate_jobs.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "models/pinned_memory.h"
#include "schedule/op_matches.h"
#include "sim/build_trace.h"
#include "traces/lane_table.h"
#include "sim/merge_jobs.h"
#include "schedule/op_graph.h"
#include "sim/run_replay.h"
#include "traces/step_summary.h"

namespace sluice {
namespace {

constexpr double kSameTime = 1e-9;  // relative: ends that differ by less are one

struct Run {
    MergedJobs merged;
    std::vector<OpRun> runs;
    std::uint64_t activities = 0;

    double begin(std::size_t job, std::uint32_t step) const { return step == 0 ? 0 : end(job, step - 1); }
    double end(std::size_t job, std::uint32_t step) const { return runs[merged.jobs[job].end_of(step)].end; }
    double end(std::size_t job) const { return end(job, merged.jobs[job].steps - 1); }
};

std::vector<Bytes> pinned_by_gpu(std::span<const Job> jobs, const Cluster& cluster) {
    std::vector<Bytes> pinned(static_cast<std::size_t>(cluster.gpus()));
    for (const Job& job : jobs) {
        const std::vector<Bytes> by_rank = pinned_bytes(*job.schedule, cluster.host.allocator);
        for (std::size_t r = 0; r < by_rank.size(); ++r) pinned[index(job.gpus[r])] += by_rank[r];
    }
    return pinned;
}

Run run_jobs(std::span<const Job> jobs, std::span<const std::uint32_t> steps, const Cluster& cluster,
             const Calibration& calibration, const std::function<void(double)>& progress) {
    Run run;
    run.merged = merge_jobs(jobs, steps, cluster);
    const Schedule& schedule = run.merged.schedule;
    const OpGraph graph(schedule);
    const OpMatches matches(schedule);
    ReplayFindings found = run_replay(schedule, graph, matches, cluster, calibration,
                                      place_pinned(pinned_by_gpu(jobs, cluster), cluster), progress);
    run.runs = std::move(found.runs);
    run.activities = found.activities;
    for (const OpRun& op : run.runs) SLUICE_CHECK(op.end >= 0, "jobs that run by themselves run together");
    return run;
}

// The steps of one job as traces of its own schedule.
class JobSteps {
public:
    JobSteps(const Job& job, const Cluster& cluster, const Calibration& calibration)
        : schedule_(*job.schedule),
          cluster_(cluster),
          calibration_(calibration),
          lanes_(lane_table(schedule_)),
          graph_(schedule_),
          matches_(schedule_) {}

    // Means over the first `count` steps of job `j`.
    JobTimes mean(const Run& run, std::size_t j, std::uint32_t count) const {
        JobTimes times;
        times.steps = count;
        for (std::uint32_t step = 0; step < count; ++step) {
            const StepSummary summary = summarize_step(trace(run, j, step));
            times.step += Seconds{run.end(j, step) - run.begin(j, step)};
            times.exposed_d2h += summary.mean.exposed_d2h;
            times.exposed_h2d += summary.mean.exposed_h2d;
        }
        for (Seconds* total : {&times.step, &times.exposed_d2h, &times.exposed_h2d})
            *total = *total / static_cast<double>(count);
        return times;
    }

private:
    Trace trace(const Run& run, std::size_t j, std::uint32_t step) const {
        const auto first = run.runs.begin() + static_cast<std::ptrdiff_t>(run.merged.jobs[j].begin_of(step));
        std::vector<OpRun> own(first, first + static_cast<std::ptrdiff_t>(schedule_.ops.size()));
        const double begin = run.begin(j, step);
        for (OpRun& op : own) op = {op.begin - begin, op.end - begin};
        SimulateOptions options;
        options.kernels = options.memory = false;
        return build_trace(schedule_, lanes_, graph_, matches_, own, cluster_, calibration_, options);
    }

    const Schedule& schedule_;
    const Cluster& cluster_;
    const Calibration& calibration_;
    LaneTable lanes_;
    OpGraph graph_;
    OpMatches matches_;
};

// Steps of a job that end before any job has run out of steps.
std::uint32_t counted(const Run& run, std::size_t job) {
    double horizon = run.end(0);
    for (std::size_t j = 1; j < run.merged.jobs.size(); ++j) horizon = std::min(horizon, run.end(j));
    std::uint32_t count = 0;
    while (count < run.merged.jobs[job].steps && run.end(job, count) <= horizon * (1 + kSameTime)) ++count;
    return count;
}

// Enough steps, were nobody slowed: the longest job has the least, the others last as long, and one step more.
std::vector<std::uint32_t> first_guess(std::span<const JobTimes> alone) {
    double longest = 0;
    for (const JobTimes& job : alone) longest = std::max(longest, job.step.value);
    std::vector<std::uint32_t> steps;
    for (const JobTimes& job : alone)
        steps.push_back(static_cast<std::uint32_t>(
            std::min(1e9, std::ceil(kLeastSteps * longest / job.step.value) + (job.step.value < longest ? 1 : 0))));
    return steps;
}

// Gives the jobs that ran out of steps too early twice as many; false when every job has enough that count.
bool extend(const Run& run, std::vector<std::uint32_t>& steps) {
    std::uint32_t least = counted(run, 0);
    double horizon = run.end(0);
    for (std::size_t j = 1; j < steps.size(); ++j) {
        least = std::min(least, counted(run, j));
        horizon = std::min(horizon, run.end(j));
    }
    if (least >= kLeastSteps) return false;
    for (std::size_t j = 0; j < steps.size(); ++j)
        if (run.end(j) <= horizon * (1 + kSameTime)) steps[j] *= 2;
    return true;
}

std::size_t ops(std::span<const Job> jobs, std::span<const std::uint32_t> steps) {
    std::size_t sum = 0;
    for (std::size_t j = 0; j < jobs.size(); ++j) sum += steps[j] * (jobs[j].schedule->ops.size() + 1);
    return sum;
}

}  // namespace

std::vector<JobTimes> simulate_alone(std::span<const Job> jobs, const Cluster& cluster,
                                     const Calibration& calibration) {
    std::vector<JobTimes> result;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        const std::uint32_t once[] = {1};
        const Run run = run_jobs(jobs.subspan(j, 1), once, cluster, calibration, {});
        result.push_back(JobSteps(jobs[j], cluster, calibration).mean(run, 0, 1));
    }
    return result;
}

JobsSimulation simulate_together(std::span<const Job> jobs, std::span<const JobTimes> alone, const Cluster& cluster,
                                 const Calibration& calibration, const std::function<void(double)>& progress) {
    JobsSimulation result;
    std::vector<std::uint32_t> steps = first_guess(alone);
    for (;;) {
        if (ops(jobs, steps) > kMostOpsOfJobs) return {};
        const Run run = run_jobs(jobs, steps, cluster, calibration, progress);
        if (extend(run, steps)) continue;
        for (std::size_t j = 0; j < jobs.size(); ++j)
            result.jobs.push_back(JobSteps(jobs[j], cluster, calibration).mean(run, j, counted(run, j)));
        result.activities = run.activities;
        return result;
    }
}

}  // namespace sluice

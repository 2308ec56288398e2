// Several jobs on the GPUs of one cluster at the same time: each trains by itself, and they share what GPUs of a node
// share: host DRAM, PCIe switches, adapters.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "scenarios/calibration.h"
#include "scenarios/cluster.h"
#include "schedule/schedule.h"

namespace sluice {

struct Job {
    const Schedule* schedule = nullptr;
    std::vector<Rank> gpus;  // by rank of the schedule: the GPU of the cluster that it runs on
};

// Of one job, means over its counted steps.
struct JobTimes {
    std::uint32_t steps = 0;               // counted
    Seconds step{};                        // from the start of a step to the end of its last op
    Seconds exposed_d2h{}, exposed_h2d{};  // as in a step's summary: mean over ranks
};

struct JobsSimulation {
    std::vector<JobTimes> jobs;  // empty: it would take more than kMostOps ops
    std::uint64_t activities = 0;
};

inline constexpr std::size_t kMostOpsOfJobs = std::size_t{1} << 24;

// Each job by itself on its own GPUs, one step.
std::vector<JobTimes> simulate_alone(std::span<const Job>, const Cluster&, const Calibration&);

// All at once. Every job begins a step at time 0 and its next one when all its ranks have ended the last; jobs whose
// steps are short repeat them for as long as the others run. A job's steps count as long as every other job is still
// running when they end; each job has at least kLeastSteps of them. (So jobs drift against one another, unless their
// steps are equally long: then all steps meet as the first ones do.) `alone` are the times of simulate_alone().
// Requires: no two jobs share a GPU; every schedule runs to its end by itself. Deterministic.
inline constexpr std::uint32_t kLeastSteps = 2;
JobsSimulation simulate_together(std::span<const Job>, std::span<const JobTimes> alone, const Cluster&,
                                 const Calibration&, const std::function<void(double)>& progress = {});

}  // namespace sluice

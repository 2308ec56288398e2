// Jobs as one schedule, for the replay. Private to sim/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/simulate_jobs.h"

namespace sluice {

// Where a job's ops are: step k has ops `first` + k x (`ops` + 1) and so on, then an op without work that ends it.
struct MergedJob {
    std::size_t first = 0, ops = 0;
    std::uint32_t steps = 0;
    std::size_t begin_of(std::uint32_t step) const { return first + step * (ops + 1); }
    std::size_t end_of(std::uint32_t step) const { return begin_of(step) + ops; }  // the op that ends it
};

struct MergedJobs {
    Schedule schedule;  // a rank per GPU of the cluster; ops without accesses, no buffers
    std::vector<MergedJob> jobs;
};

// Job j with `steps[j]` > 0 steps in a row: an op of a step that has nothing to wait for in it waits for the end of all
// of the step before.
MergedJobs merge_jobs(std::span<const Job> jobs, std::span<const std::uint32_t> steps, const Cluster&);

}  // namespace sluice

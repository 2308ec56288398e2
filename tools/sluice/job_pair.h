// Two scenarios on the same nodes at the same time, each on its own GPUs: do they fit beside one another, and how much
// slower does each get?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/pinned_memory.h"
#include "planner/lower.h"
#include "scenarios/scenario.h"
#include "sim/simulate_jobs.h"
#include "tools/sluice/progress_line.h"

namespace sluice {

struct PairedJob {
    Scenario scenario;
    Lowered lowered;
    std::int64_t first_gpu = 0;        // of each of its nodes
    std::vector<Bytes> pinned;         // by NUMA node, where its own bytes are most
    std::optional<JobTimes> alone;     // on the same GPUs, the others idle
    std::optional<JobTimes> together;  // absent where something fell short before
    double slowdown() const { return together->step / alone->step - 1; }
};

struct JobPair {
    Cluster cluster;                   // the whole nodes that both are on
    std::vector<PairedJob> jobs;       // A, B
    std::vector<std::string> reasons;  // why B is refused beside A, or a job by itself; empty: accepted
    double max_slowdown = 0;           // of either job's step: 0.05 is 5%
};

// A is on the first GPUs of each node, B on the next. Refused when GPUs or pinned bytes fall short, exactly, or when
// either job's step takes more than `max_slowdown` longer than alone. Throws InputError when the two scenarios are not
// of one kind of node and one calibration. Requires: every choice is made in both.
JobPair pair_jobs(const Scenario& a, const Scenario& b, double max_slowdown, ProgressLine&);

std::string pair_text(const JobPair&);
std::string pair_json(const JobPair&);

}  // namespace sluice

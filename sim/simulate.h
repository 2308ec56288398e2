// Replays a schedule on a SimGrid model of a cluster and returns the predicted trace.
#pragma once

#include <cstdint>
#include <functional>

#include "base/diagnostic.h"
#include "scenarios/calibration.h"
#include "scenarios/cluster.h"
#include "schedule/schedule.h"
#include "traces/trace.h"

namespace sluice {

struct SimulateOptions {
    bool kernels = true;  // kernel sub-spans in the trace
    bool memory = true;   // memory samples and peaks in the trace
    // Called in the parent, at most a few times a second, with the fraction of ops that have ended. May be empty.
    std::function<void(double)> progress;
    bool events = true;  // without them the trace holds the length of the step and nothing else
};

struct Simulation {
    Trace trace;  // empty when stuck; provenance: producer, hardware, calibration and versions filled in
    std::uint64_t activities = 0;  // computes and flows that SimGrid ran
    Diagnostics stuck;             // one per blocked op at the head of its lane, with what it waits for; rule "stuck"
};

// Rank r runs on GPU r: node r / gpus_per_node. Requires: schedule.ranks.size() <= cluster.gpus(), and a schedule that
// verify() accepts as far as ids and ranges go. Blocks; the replay itself runs in a forked child (SimGrid allows one
// simulation per process), so call it before starting threads or CUDA. Throws EnvironmentError when the child cannot be
// started or dies. Same inputs, same trace, bit by bit.
Simulation simulate(const Schedule& schedule, const Cluster& cluster, const Calibration& calibration,
                    const SimulateOptions& options = {});

// The length of the step alone, replayed in this very process: once per process, and simulate() cannot be called in it
// afterwards. For children that are forked to replay one schedule; it spares them another fork and its copied pages.
// Requires, beyond what simulate() does: the schedule runs to its end (InternalError otherwise).
Seconds replay_here(const Schedule& schedule, const Cluster& cluster, const Calibration& calibration);

}  // namespace sluice

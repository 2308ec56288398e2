// What one reads off a trace first: where the step went, how full memory was, what took the time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "traces/lane_time.h"
#include "traces/trace.h"

namespace sluice {

// The rank that waited longest; the lowest of equals. kNoRank in a trace without compute lanes.
struct WorstRank {
    Rank rank = kNoRank;
    Seconds time{};
};

// How full a pool got.
struct PoolPeak {
    std::uint32_t owner = 0;  // rank, or node for host memory
    Bytes live{};             // most bytes that lived at one time
    Bytes arena{}, capacity{};
    Seconds time{};
    OpId op = kNoOp;                                   // the op that was running then
    std::vector<std::pair<std::string, Bytes>> kinds;  // what lived then; by label index
};

struct StageTime {
    std::int32_t stage = -1;  // -1: compute of no stage
    std::uint32_t ranks = 0;  // that compute for it
    Seconds busy{};           // compute, mean over those ranks
};

struct LabelTime {
    std::string label;
    std::uint64_t count = 0;  // events or kernel calls
    Seconds time{};           // summed over ranks
};

struct StepSummary {
    Seconds step{};
    std::uint64_t ops = 0;

    std::vector<LaneTime> lanes;  // by rank
    LaneTime mean;  // over ranks: its exposed_* are the `exposed_*_seconds` of a JSON summary. rank: kNoRank
    BubbleShare bubble;
    WorstRank worst_d2h, worst_h2d, worst_comm;

    std::vector<PoolPeak> device_peaks, host_peaks;  // by rank, by node
    Bytes offloaded{}, reloaded{};                   // sums over the copies of all ranks

    std::vector<StageTime> stages;   // by stage
    std::vector<LabelTime> phases;   // of compute events; longest first
    std::vector<LabelTime> kernels;  // by op class; longest first; empty when the trace has no kernel spans

    // The fullest pool by live bytes, the lowest owner of equals; nullptr when the trace has no such pool.
    const PoolPeak* fullest_device() const;
    const PoolPeak* fullest_host() const;
};

StepSummary summarize_step(const Trace& trace);

}  // namespace sluice

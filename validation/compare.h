// A predicted step beside measured ones, joined op by op. docs/validation.md is the manual.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "schedule/schedule.h"
#include "traces/step_summary.h"
#include "traces/trace.h"
#include "validation/error_shares.h"

namespace sluice {

// Errors are predicted - measured, relative ones divided by measured: below zero, the prediction was too short.
struct TimePair {
    Seconds predicted{}, measured{};
    Seconds error() const { return predicted - measured; }
    double relative_error() const;  // infinite where only measured is 0, 0 where both are
};

struct LanePair {  // busy time of one lane
    TraceLane lane;
    TimePair busy;
};

// Time and calls of an op class, all ranks: how long its ops run, on the chain or not.
struct ClassPair {
    std::string op_class;
    std::uint64_t predicted_calls = 0, measured_calls = 0;
    TimePair busy;
    Seconds measured_least{}, measured_most{};  // among the measured steps
};

struct NumberedPair {  // a stage or a subsequence; -1: none
    std::int32_t number = -1;
    TimePair compute, others;  // compute lanes; copies, transfers and collectives. All ranks
};

struct PoolPair {
    bool host = false;
    std::uint32_t owner = 0;  // rank, or node when host
    Bytes predicted_live{}, measured_live{}, predicted_arena{}, measured_arena{};
};

struct OpPair {
    OpId op{};
    Rank rank{};
    std::string op_class;  // of the op as a whole: "compute", "copy_out" ...
    std::string phase;
    std::int32_t stage = -1, layer = -1, subsequence = -1;
    TimePair time;
};

struct Comparison {
    TimePair step;                        // measured: the median step
    std::vector<Seconds> measured_steps;  // ascending
    std::size_t median_step = 0;          // its place in the order in which the steps were given

    std::vector<ErrorShare> error_shares;
    std::vector<LanePair> lanes;     // by rank, role, peer
    std::vector<ClassPair> classes;  // longest first
    std::vector<NumberedPair> stages, subsequences;
    LaneTime predicted_mean, measured_mean;  // parts of a mean compute lane: exposed copies, bubble ...
    BubbleShare predicted_bubble, measured_bubble;
    std::vector<PoolPair> pools;                      // devices by rank, then hosts by node
    std::vector<OpPair> worst_ops;                    // by absolute error of their duration, then id
    std::vector<OpId> only_predicted, only_measured;  // ops that one of the traces has no event of
    bool kernels = true;                              // both traces tell the kernels of compute ops apart
};

struct CompareOptions {
    std::size_t worst_ops = 10;
    const Schedule* schedule = nullptr;  // tells the kinds of collectives apart
};

// Requires: at least one measured trace; all of one schedule (require_same_schedule).
Comparison compare(const Trace& predicted, std::span<const Trace> measured, const CompareOptions& options = {});

// Throws InputError unless both name the same schedule. Names are those of the files.
void require_same_schedule(const Trace& a, std::string_view a_name, const Trace& b, std::string_view b_name);

}  // namespace sluice

// What a training run of so many tokens costs: its steps, and what surrounds them.
//
//   work            steps x step time
//   initialisation  start-up, pinning the host memory, weights and optimizer state from storage
//   checkpoints     one per interval of work, none at the very end; training stands still while one is written
//   failures        at the rate gpus / mtbf_per_gpu, in all the time after initialisation; each costs half an interval
//                   with half its checkpoint, the restart, and an initialisation
// With w = work + checkpoints, m = mtbf / gpus and l = what one failure costs, the time is w + (time / m) l, so
// time = w / (1 - l / m): failures during what failures cost are counted.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"
#include "scenarios/scenario.h"

namespace sluice {

struct RunStep {
    Seconds time{};
    Tokens tokens{};  // sequence x batch
    std::int64_t gpus = 1, nodes = 1;
    Bytes state{};                    // weights and optimizer state, each parameter once: what a checkpoint holds
    Bytes pinned_per_node{};          // of the fullest node
    std::optional<Seconds> pin_time;  // where the cluster says; else pinned_per_node at the terms' pin_rate
};

struct RunCost {
    std::int64_t steps = 0;
    Seconds work{}, initialisation{}, pinning{}, checkpoint{}, checkpoints{}, failures{}, total{};
    std::int64_t checkpoint_count = 0;
    double failure_count = 0;  // expected
    Seconds mtbf{};            // of the job
    Seconds best_interval{};   // Young 1974: sqrt(2 x checkpoint x mtbf), the first-order optimum; Daly 2006 adds
                               // terms that vanish while a checkpoint is short beside the mtbf
    bool finishes = true;      // false: failures cost more time than lies between them; total is then infinite
    double gpu_hours = 0;
};

// Weights and optimizer state of the model, as rank_memory.h sizes them.
Bytes checkpoint_bytes(const Scenario&);

// Requires: tokens > 0, step.time > 0.
RunCost run_cost(Tokens tokens, const RunStep&, const RunTerms&);

}  // namespace sluice

// What a runtime reads out of a schedule about the run it describes: who each rank is and where the sequence is cut.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.h"

namespace sluice {

struct RankRole {
    std::int64_t stage = 0, replica = 0, shard = 0;
    std::int64_t first_layer = 0, layers = 0;  // that its ops name; 0 where the schedule has none of them
};

// Tokens [begin, begin + length) of a sequence.
struct RunSubsequence {
    Tokens begin{}, length{};
};

struct RunShape {
    std::vector<RankRole> ranks;
    std::vector<RunSubsequence> subsequences;
    std::int64_t stages = 1, replicas = 1, shards = 1;
    std::int64_t weight_shards = 1;  // that hold a weight matrix together: all shards, or with Ulysses one
    bool shares_states = false;      // ZeRO 1: each replica has a share of the optimizer's states
    bool first_stage(Rank r) const { return ranks[index(r)].stage == 0; }
    bool last_stage(Rank r) const { return ranks[index(r)].stage + 1 == stages; }
};

// Throws InputError, one line, for what cannot be run: a schedule whose ops do not say what they compute (granularity
// stage, the paper's inventory), another number of ranks than the scenario's degrees, an open choice, ZeRO
// 2 or 3,// subsequences that do not make the scenario's sequence. The schedule has all ops of the local ranks at
// least.
RunShape read_run_shape(const Scenario&, const Schedule&, std::span<const Rank> local);

}  // namespace sluice

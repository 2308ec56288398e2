// What to change when nothing fits: for each thing that can be changed alone, the least change that makes a step fit.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "planner/fit_search.h"
#include "scenarios/scenario.h"

namespace sluice {

struct Change {
    std::string what;                    // "more GPUs"
    std::string how;                     // "2 nodes of 8, 16 GPUs"; or why it cannot help alone
    std::optional<Scenario> before;      // one step less of it, which does not fit; absent where there are no steps
    std::optional<PlacedCandidate> fit;  // planned with the change, in full; absent: it cannot help alone
    Seconds estimate{};                  // of that plan's step; others may be faster
};

struct SmallestChangeOptions {
    std::function<void(std::string_view what, double fraction)> progress;  // may be empty
};

// In the order GPUs, subsequences, degrees, offload, recompute, K and V, sequence, host memory, GPU memory, all of them:
// what the scenario has already says so. Each is found by placement and then planned in full.
//   more GPUs      whole nodes, at most 16 times as many; sp and pp are then open, since they have to follow
//   subsequences   at least 256 tokens and one alignment each
//   memory         whole GiB per GPU or node, at most 1 PiB
// Requires: nothing fits (else every change would be none).
std::vector<Change> smallest_changes(const Scenario&, const SmallestChangeOptions& = {});

}  // namespace sluice

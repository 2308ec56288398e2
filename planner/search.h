// The search over what a scenario leaves to the planner: sequence-parallel degree, stages, replicas, ZeRO stage,
// subsequences, partition, placement, traversal order.
//
// Every candidate is priced by the cost model. First a bound, the estimate of the step with nothing offloaded, which no
// placement can beat; then, from the lowest bound up, placement under the memory limits and the estimate of the placed
// step, until the next bound is no better than what was found. The caller replays the finalists.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "planner/lower.h"
#include "scenarios/scenario.h"

namespace sluice {

struct SearchOptions {
    // Feasible candidates to return as such, beside the recomputing variant of the best. Those at the top are so close
    // together that more replays would decide nothing.
    std::size_t finalists = 2;
    std::size_t workers = 0;  // threads; 0: as many as the machine has. The result does not depend on them
    // May be empty. What is being done, and how much of the round is done, were all of its candidates to be placed: at
    // most so much. Called from any thread, one call at a time.
    std::function<void(std::string_view what, double fraction)> progress;
};

enum class Verdict : std::uint8_t { kFinalist, kSlower, kInfeasible, kImpossible };

struct Candidate {
    Scenario scenario;  // with every choice made
    Verdict verdict = Verdict::kImpossible;
    std::string reason;  // why it is not a finalist, one line; of a finalist what its estimate consists of
    Seconds bound{};     // estimate with nothing offloaded; 0 when impossible
    Seconds estimate{};  // of the placed step; 0 when it was not placed
    std::shared_ptr<const PlannedStep> planned;  // of a finalist
    std::string label() const;  // "sp 8 x pp 16, n 256, partition flops"; with replicas "... pp 4 x dp 4 (zero 1), ..."
};

// All candidates: finalists first by estimate, then slower ones by estimate or bound, infeasible ones by bound,
// impossible ones. No finalist: nothing fits. Deterministic; ties go to the earlier in the order sp, dp, zero, n
// descending, partition.
//
// With the placement left open, the best candidate also comes with everything recomputed, where that is feasible and
// less than 10% slower by the cost model: copies that share links with other traffic can cost more than that, and the
// replay knows. With the order left open, single stages are tried in both.
//
// N: mean lengths S/N from 2 Ki to 16 Ki tokens (SPPO section 6.1), in steps of at most a factor of 1.5; shorter and
// longer ones only when none of these fits. sp x pp x dp is always the whole cluster; dp divides the batch.
// Its threads have ended when it returns: simulations may be forked then.
std::vector<Candidate> search(const Scenario&, const SearchOptions& = {});

// What search() looks at, with every choice made and unpriced: the candidates it prefers, then those it takes only when
// none of these fits. `reason` is filled in where the choices cannot be used at all.
std::vector<std::vector<Candidate>> candidate_rounds(const Scenario&);

}  // namespace sluice

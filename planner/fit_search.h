// Whether anything fits, without pricing it: what questions about limits ask many times. Candidates are those of
// search(); here the first that fits is as good as any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "planner/memory_need.h"
#include "planner/search.h"
#include "scenarios/scenario.h"

namespace sluice {

// A candidate that was placed: whether it fits, and what it takes.
struct PlacedCandidate {
    Candidate candidate;
    std::vector<MemoryNeed> memory;
    std::string reason;  // why it does not fit; "" when it does
    bool fits() const { return reason.empty(); }
};

// Places one candidate as plan_step() would, but stops as soon as the answer is known.
PlacedCandidate place_candidate(const Candidate&);

// Does `a` lack less memory than `b`, in shares of what the pools have?
bool lacks_less(const PlacedCandidate& a, const PlacedCandidate& b);

class FitSearch {
public:
    // The first candidate that fits or, when none does, the one that lacks least; nullopt: all are impossible. Exact:
    // every candidate of search() is asked before the answer is no. The one that fitted last is asked first, and its
    // likes before others.
    std::optional<PlacedCandidate> find(const Scenario&);

    std::size_t placed() const { return placed_; }  // candidates placed so far

private:
    std::optional<Candidate> last_;
    std::size_t placed_ = 0;
};

}  // namespace sluice

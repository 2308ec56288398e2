// Makes the choices that a scenario leaves open: searches by the cost model, replays the finalists, takes the fastest.
#pragma once

#include <string>
#include <vector>

#include "planner/search.h"
#include "scenarios/scenario.h"
#include "tools/sluice/progress_line.h"

namespace sluice {

struct ReplayedCandidate {
    Candidate candidate;
    Seconds replayed{};  // 0 unless it is a finalist
};

struct Choice {
    std::vector<ReplayedCandidate> candidates;  // finalists first, by replayed time; then as search() orders them
    bool found() const { return !candidates.empty() && candidates.front().replayed.value > 0; }
    const Scenario& scenario() const { return candidates.front().candidate.scenario; }  // Requires: found()
};

// The step time in a replay. Requires of a planned step: feasible.
Seconds replayed_step(const Schedule&, const Scenario&);
Seconds replayed_step(const PlannedStep&, const Scenario&);

Choice choose_plan(const Scenario&, ProgressLine&);

// Puts the best choices into the scenario where it leaves some open; a progress line meanwhile. Returns why nothing
// fits, one line per candidate, or nothing.
std::vector<std::string> make_choices(Scenario&);

// What `sluice plan` prints.
std::string choice_text(const Scenario&, const Choice&, bool explain);
std::string choice_json(const Choice&);

}  // namespace sluice

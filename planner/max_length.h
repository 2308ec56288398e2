// The longest sequence that fits: on the scenario's cluster, with its choices, those left open made anew at every
// length.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "planner/fit_search.h"
#include "scenarios/scenario.h"

namespace sluice {

struct MaxLengthOptions {
    std::function<void(std::string_view what, double fraction)> progress;  // may be empty
};

struct MaxLength {
    Tokens step{};                           // the lengths looked at are its multiples: length_step()
    std::optional<PlacedCandidate> longest;  // at the longest length that fits; absent: not even the shortest does
    // At the next length, the choices that lack least memory, placed in full. Absent when `longest` is as long as
    // scenarios can be, or when the choices are impossible at every length (then so is `longest`).
    std::optional<PlacedCandidate> failing;
    std::size_t placed = 0;  // candidates placed on the way
};

// What a length has to be a multiple of, so that every usable choice can take it: the alignment where the scenario
// fixes one (or sp, which it then follows), else the least common multiple of the sequence-parallel degrees that divide
// the model. Requires: not a list of lengths.
Tokens length_step(const Scenario&);

// The scenario's own sequence is where the search begins, no more. Guaranteed, and not only expected: `longest` fits
// (place it with plan_step() and it does), the next length does not with any choice that search() would look at, nor do
// a few lengths after it (kLengthsBeyond in max_length.cc). Beyond, what does not fit is taken not to fit when longer:
// the arena of a longer sequence can only be smaller by an accident of packing. Requires: not a list of lengths.
MaxLength max_length(const Scenario&, const MaxLengthOptions& = {});

}  // namespace sluice

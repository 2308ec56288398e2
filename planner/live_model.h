// How many bytes live on a stage's GPU at its worst moment, as a function of what is offloaded. The placement rule asks
// this thousands of times, so it is prepared once per stage and answers without lowering anything.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/folded_step.h"
#include "planner/offload_units.h"

namespace sluice {

class LiveModel {
public:
    // `probe`: the step with some bytes of every unit moved, so that every copy is listed.
    LiveModel(const OffloadedStep& probe, const FoldedStep& whole, std::size_t stage);

    // Peak of live bytes in issue order when x[i] bytes of subsequence i are moved, spread over the subsequence's units
    // in proportion. Never grows when an x grows.
    Bytes peak(const std::vector<Bytes>& x) const;

    // The share of x[i] of each unit of the stage, by position among them; exact in sum, multiples of the alignment
    // where the unit is not moved whole.
    std::vector<Bytes> shares(const std::vector<Bytes>& x) const;

    const std::vector<std::size_t>& units() const { return units_; }      // indices into FoldedStep::units
    const std::vector<Bytes>& activation() const { return activation_; }  // A_i by subsequence, one sequence's

    // Does the other stage have the same buffers with the same lives?
    bool same_lives(const LiveModel& other) const { return lives_ == other.lives_ && fixed_ == other.fixed_; }

private:
    struct Life {
        std::size_t begin = 0, end = 0;  // segments, end exclusive
        friend bool operator==(const Life&, const Life&) = default;
    };
    struct UnitLife {
        std::size_t subsequence = 0;
        Bytes bytes{};
        double of_rest = 1;  // its size over that of the subsequence's units from it on; 1: the last one
        Life kept, moved, reloaded;
        friend bool operator==(const UnitLife&, const UnitLife&) = default;
    };
    std::vector<std::size_t> units_;
    std::vector<UnitLife> lives_;  // by position in units_
    std::vector<Bytes> activation_;
    std::vector<Bytes> fixed_;  // by segment: most bytes of everything else
};

}  // namespace sluice

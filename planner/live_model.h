// How many bytes live on a stage's GPU at its worst moment, as a function of what is offloaded and recomputed. The
// placement rules ask this thousands of times, so it is prepared once per stage and answers without lowering anything.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "planner/folded_step.h"
#include "planner/offload_units.h"
#include "planner/three_way.h"

namespace sluice {

class LiveModel {
public:
    // `probe`: the step with some bytes of every unit moved, so that every copy is listed, and, where recomputing is
    // asked about, with every layer recomputed, so that every recompute op is. `whole`: the step with nothing moved or
    // recomputed.
    LiveModel(const OffloadedStep& probe, const FoldedStep& whole, std::size_t stage);

    // Peak of live bytes in issue order when the lowest recomputed[i] layers of slot i are made again and x[i]
    // bytes of the rest are moved, spread over the slot's units in proportion. `recomputed` may be empty: none.
    // Never grows when an x grows. Exact with nothing recomputed in the probe; else at most one message above what
    // lives.
    Bytes peak(const std::vector<Bytes>& x, const std::vector<std::int64_t>& recomputed = {}) const;

    // Least peak that any choice of x and recomputed layers could have: of every unit, at every moment, the least that one
    // of its fates leaves there.
    Bytes floor() const;

    // The moments at which more than `limit` lives, nothing being recomputed. Of several in a row with the same holders
    // the worst.
    std::vector<Shortage> shortages(const std::vector<Bytes>& x, Bytes limit) const;

    // The share of x[i] of each unit of the stage, by position among them; exact in sum, multiples of the alignment
    // where the unit is not moved whole.
    std::vector<Bytes> shares(const std::vector<Bytes>& x, const std::vector<std::int64_t>& recomputed = {}) const;

    const std::vector<std::size_t>& units() const { return units_; }      // indices into FoldedStep::units
    const std::vector<Bytes>& activation() const { return activation_; }  // A_i by slot, one sequence's
    // What one layer's recomputing takes from A_i, by slot; 0 where the probe does not recompute.
    const std::vector<Bytes>& cheap() const { return cheap_; }

    // Does the other stage have the same buffers with the same lives?
    bool same_lives(const LiveModel& other) const { return lives_ == other.lives_ && fixed_ == other.fixed_; }

private:
    struct Life {
        std::size_t begin = 0, end = 0;  // segments, end exclusive
        friend bool operator==(const Life&, const Life&) = default;
    };
    struct UnitLife {
        std::size_t slot = 0;
        std::int64_t row = 0;  // of the slot; one row may stand for several layers
        Bytes bytes{};
        Life kept, moved, reloaded, dropped, remade;
        friend bool operator==(const UnitLife&, const UnitLife&) = default;
    };
    std::int64_t recomputed_layers(const UnitLife&, const std::vector<std::int64_t>& recomputed) const;
    Bytes bytes_of(const UnitLife&, const std::vector<std::int64_t>& recomputed) const;

    std::vector<std::size_t> units_;
    std::vector<UnitLife> lives_;  // by position in units_
    std::vector<Bytes> activation_, cheap_;
    std::vector<Bytes> fixed_;  // by segment: most bytes of everything else
    bool by_layer_ = false;
};

}  // namespace sluice

// Which units are kept, offloaded or recomputed: the least added time that fits (docs/placement.md).
//
// Per subsequence i of a stage, x_i bytes go to the host and r_i of its layers drop their cheap part, which backward
// makes again. The added time is
//
//   sum over i of   r_i x recompute_i   +   max(0, x_i - window_i(r_(i+1))) / exposed
//
// the second term being copies that compute does not hide. Recomputing subsequence i+1 widens the window of i: there is
// more compute to hide the reload behind.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/units.h"

namespace sluice {

// A moment at which memory is short when nothing is recomputed and every copy that hides is made.
struct Shortage {
    enum class Holds : std::uint8_t {
        kNothing,  // of this subsequence
        kRest,     // what is not offloaded of it
        kAll,      // all of it: its copy is on its way, or it is being computed
    };
    Bytes bytes{};             // by how much, > 0
    std::vector<Holds> holds;  // by subsequence
};

struct ThreeWayProblem {
    std::vector<Bytes> activation;   // A_i
    std::vector<Bytes> cheap;        // what recomputing one layer takes from A_i
    std::vector<Seconds> recompute;  // what it costs
    std::int64_t layers = 0;         // r_i at most; layers x cheap_i <= A_i
    // Of subsequence i when `next` layers of i+1 are recomputed; does not shrink when `next` grows. 0 for the last.
    std::function<Bytes(std::size_t i, std::int64_t next)> window;
    BytesPerSecond exposed{1};  // what one added second moves beyond windows, out and back
    Bytes host{};               // sum of x_i at most
    Bytes quantum{512};         // as in OffloadProblem
    // Does the step fit on the GPU? As OffloadProblem::fits in x; must not turn from true to false as an r_i grows and
    // x_i shrinks by no more than what that frees.
    std::function<bool(const std::vector<Bytes>& x, const std::vector<std::int64_t>& r)> fits;
    // For the bound only: at given copies and nothing recomputed. May be empty, then the bound is 0 where not exact.
    std::function<std::vector<Shortage>(const std::vector<Bytes>& x)> shortages;
    // How much more than fits lives with nothing moved; at least so many bytes have to go, since moving one frees no
    // more. May be empty.
    std::function<Bytes(const std::vector<std::int64_t>& r)> excess;
    bool only_fit = false;  // any choice that fits will do: neither thrift nor a bound
    // Up to so many vectors r, all are tried: exact. Beyond, layers are taken in order of cost per byte freed, as many
    // as needed, and put back where they turn out not to be.
    std::size_t most_tried = 1024;
};

struct ThreeWayChoice {
    std::vector<Bytes> x;
    std::vector<std::int64_t> r;
    bool feasible = false;  // false: nothing fits; everything is recomputed, the rest is moved
    Seconds added{};
    Seconds bound{};  // no choice adds less; equal to `added` where all were tried
};

// Least added time; among equals the fewest recomputed layers, then the fewest bytes moved. Deterministic.
ThreeWayChoice choose_three_way(const ThreeWayProblem&);

}  // namespace sluice

// How many bytes of each subsequence are offloaded (SPPO section 5.2, read as docs/placement.md argues).
//
// Objective: minimal step time that fits; among equals the fewest bytes moved; among those, amounts x_i = alpha_i A_i
// as equal as the windows allow. A copy of subsequence i has a window: it is hidden when x_i does not exceed what the
// links move while subsequence i+1 computes. Windows are exceeded only when nothing else fits, by as little as possible
// each.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/units.h"

namespace sluice {

struct OffloadProblem {
    std::vector<Bytes> activation;  // A_i
    std::vector<Bytes> window;      // of subsequence i's copies; 0 for the last, whose backward comes next
    Bytes quantum{512};             // amounts are multiples of it, or the whole of A_i
    // Does the step fit when x_i bytes of subsequence i are moved? Must not turn from true to false as an x_i grows,
    // nor when bytes are moved of an earlier subsequence instead of a later one: an earlier one leaves first and comes
    // back last.
    std::function<bool(const std::vector<Bytes>&)> fits;
};

struct OffloadAmounts {
    std::vector<Bytes> x;
    bool feasible = false;       // false: even moving everything does not fit; x is everything
    bool within_windows = true;  // every x_i <= window_i
};

// Exact for the problem as stated: at the result, lowering any x_i by a quantum no longer fits.
OffloadAmounts choose_offload(const OffloadProblem&);

// The paper's recurrence, for reports and tests: resident bytes when subsequence i has been computed and the copy of
// i-1 is out, M_i = M_(i-1) + A_i - x_(i-1), M_0 = resident + A_0. (The placed schedule is what counts: it also holds
// what is still on its way.)
std::vector<Bytes> memory_recurrence(Bytes resident, std::span<const Bytes> activation,
                                     std::span<const Bytes> offloaded);

}  // namespace sluice

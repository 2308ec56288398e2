// Why a step took as long as it did: the chain of ops that leads from its end back to its begin, each waiting for the
// one before it. Every nanosecond of the step is in exactly one link, so sums over the links are the step, exactly.
// docs/validation.md has the rules.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "traces/trace.h"

namespace sluice {

// Whole nanoseconds, so that differences of sums are sums of differences.
using Nanoseconds = Quantity<struct NanosecondsUnit, std::int64_t>;

inline Nanoseconds to_nanoseconds(Seconds t) { return Nanoseconds{std::llround(t.value * 1e9)}; }
constexpr Seconds to_seconds(Nanoseconds t) { return Seconds{static_cast<double>(t.value) * 1e-9}; }

enum class LinkKind : std::uint8_t {
    kRuns,      // `op` runs
    kStartGap,  // all that `op` waited for has ended, and `op` has not begun: launch, wake-up, scheduling
    kUnknown,   // the trace lacks the event of what `op` waited for; after the last op
};

struct ChainLink {
    LinkKind kind = LinkKind::kUnknown;
    OpId op = kNoOp;  // kNoOp only after the last op
    // kRuns: why the next link's op waited for this one, kNone in the last link; else why `op` waited.
    Wait wait = Wait::kNone;
    Nanoseconds begin{}, end{};
};

// By time, from 0 to the step; each begins where the one before it ends. Empty for a step without length. Never fails:
// a chain that ends early (no blocker, a blocker without event, a cycle) leaves the rest to kUnknown.
std::vector<ChainLink> step_chain(const Trace& trace);

}  // namespace sluice

// The rules of trace.h as checks, shared by the writer (a broken one is our bug) and the reader (the file is wrong).
#pragma once

#include <string>
#include <vector>

#include "traces/trace.h"

namespace sluice {

// Order and nesting are checked up to this much, so that spans summed up from durations pass.
inline constexpr Seconds kTraceTimeTolerance{1e-9};

// Longer steps are refused: 31 years, and still exact in integer nanoseconds.
inline constexpr Seconds kMaxTraceTime{1e9};

// More bytes than this in all events of a trace, or in one peak, are refused: sums must not overflow.
inline constexpr Bytes kMaxTraceBytes{std::int64_t{1} << 62};

// Checks a trace piece by piece, in file order. Every call returns the broken rule, or "" when there is none.
// Refers to `trace` and may be used while its vectors grow, once step, labels, lanes and pools are there.
class TraceCheck {
public:
    explicit TraceCheck(const Trace& trace) : trace_(trace), lane_free_(trace.lanes.size()) {}

    std::string header() const;
    // In order. `trace.events` must be complete before the first kernel.
    std::string event(const TraceEvent& event);
    std::string kernel(const KernelSpan& kernel);
    std::string sample(const MemorySample& sample);

private:
    const Trace& trace_;
    std::vector<Seconds> lane_free_;  // per lane: end of its last event
    OpId last_op_ = kNoOp;
    Bytes moved_{};  // by the events so far
    KernelSpan last_kernel_;
    MemorySample last_sample_;
    bool any_kernel_ = false, any_sample_ = false;
};

// The first broken rule of a whole trace with its place ("event 17: ..."), or "".
std::string check_trace(const Trace& trace);

}  // namespace sluice

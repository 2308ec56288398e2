// Chrome trace-event JSON, which ui.perfetto.dev and chrome://tracing open: one process per rank, one track per lane,
// kernels nested in their op, counters for memory, arrows from each offload to its reload.
#pragma once

#include <cstddef>
#include <iosfwd>

#include "traces/trace.h"

namespace sluice {

struct PerfettoOptions {
    bool kernels = true;        // nested kernel spans
    std::size_t max_ranks = 0;  // 0: all; otherwise only ranks below it, and the file says so
};

// Streams; times in microseconds with nanosecond digits. Same trace, same bytes.
// Requires: check_trace(trace) finds nothing.
void export_perfetto(std::ostream& out, const Trace& trace, const PerfettoOptions& options = {});

}  // namespace sluice

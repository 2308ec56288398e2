// Any bytes as a trace file: an InputError or a trace that everything that reads traces can take.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "traces/perfetto_export.h"
#include "traces/step_summary.h"
#include "traces/trace_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    sluice::Trace trace;
    try {
        trace = sluice::parse_trace({reinterpret_cast<const char*>(data), size}, "fuzz");
    } catch (const sluice::InputError&) {
        return 0;
    }
    for (const sluice::LaneTime& t : sluice::lane_times(trace)) {
        const double error = t.total().value - trace.step.value;
        if (!(error <= 1e-9 * (1 + trace.step.value) && -error <= 1e-9 * (1 + trace.step.value))) std::abort();
    }
    sluice::summarize_step(trace);
    std::ostringstream json, file;
    sluice::export_perfetto(json, trace);
    sluice::write_trace(file, trace);
    if (!(sluice::parse_trace(file.str(), "fuzz again") == trace)) std::abort();
    return 0;
}

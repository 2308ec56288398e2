#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "base/error.h"
#include "tools/sluice/output.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/verbs.h"
#include "traces/perfetto_export.h"
#include "traces/trace_file.h"

namespace sluice {
namespace {

struct Written {
    std::size_t ranks, events;
};

// What export_perfetto() writes of a trace with `max_ranks`.
Written count_written(const Trace& trace, std::size_t max_ranks) {
    const auto is_written = [&](const TraceLane& lane) { return max_ranks == 0 || index(lane.rank) < max_ranks; };
    std::set<Rank> ranks;
    for (const TraceLane& lane : trace.lanes)
        if (is_written(lane)) ranks.insert(lane.rank);
    std::size_t events = 0;
    for (const TraceEvent& event : trace.events) events += is_written(trace.lanes[event.lane]) ? 1U : 0U;
    return {ranks.size(), events};
}

}  // namespace

int export_verb(const Arguments& arguments) {
    std::string path, output = "-";
    std::size_t ranks = 0;
    bool no_kernels = false, json = false;
    const Usage usage{"export",
                      "Turns a trace into Chrome trace-event JSON: open it at https://ui.perfetto.dev.",
                      "TRACE",
                      &path,
                      {{"-o,--output", "FILE", "where to; - is stdout", &output},
                       {"--ranks", "N", "only the first N ranks (a file of all ranks of a large step can be too much)",
                        nullptr, nullptr, &ranks},
                       {"--no-kernels", "", "leave the kernels inside compute ops out", nullptr, &no_kernels},
                       {"--json", "", "say on stdout, as JSON, what was written (needs -o FILE)", nullptr, &json}},
                      "  sluice export step.trace -o step.json\n"
                      "  sluice export step.trace --ranks 16 --no-kernels -o step.json"};
    if (!parse_arguments(usage, arguments)) return 0;
    if (json && output == "-") throw InputError("sluice export: --json and the picture both want stdout; give -o FILE");
    require_writable(output);

    const Trace trace = read_trace(path);
    write_output(output, [&](std::ostream& out) { export_perfetto(out, trace, {!no_kernels, ranks}); });
    if (json) {
        const auto [written_ranks, written_events] = count_written(trace, ranks);
        const nlohmann::ordered_json result{{"output", output}, {"events", written_events}, {"ranks", written_ranks}};
        fmt::print("{}\n", result.dump(2));
    }
    return 0;
}

}  // namespace sluice

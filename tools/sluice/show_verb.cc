#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "schedule/grid_view.h"
#include "schedule/schedule_file.h"
#include "schedule/schedule_text.h"
#include "schedule/verify.h"
#include "tools/sluice/output.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/report.h"
#include "tools/sluice/verbs.h"
#include "traces/trace_file.h"
#include "traces/trace_format.h"

namespace sluice {
namespace {

// Told apart by the first bytes, so that any file can be shown.
bool is_trace(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::string start(kTraceMagic.size(), '\0');
    return in.read(start.data(), static_cast<std::streamsize>(start.size())) && start == kTraceMagic;
}

int show_trace(const std::string& path, bool json) {
    const Trace trace = read_trace(path);
    const StepSummary summary = summarize_step(trace);
    fmt::print("{}", json ? trace_json(trace, summary) + "\n" : trace_text(trace, summary));
    return 0;
}

void print_counts(const Schedule& schedule) {
    nlohmann::ordered_json json{{"ranks", schedule.ranks.size()},
                                {"groups", schedule.groups.size()},
                                {"buffers", schedule.buffers.size()},
                                {"ops", schedule.ops.size()}};
    nlohmann::ordered_json lanes = nlohmann::ordered_json::object();
    for (const LaneKind kind : {LaneKind::kCompute, LaneKind::kCopyOut, LaneKind::kCopyIn, LaneKind::kCollective,
                                LaneKind::kSend, LaneKind::kReceive}) {
        std::size_t count = 0;
        for (const Op& op : schedule.ops) count += op.lane.kind == kind ? 1 : 0;
        lanes[std::string(name(kind))] = count;
    }
    json["ops_by_lane"] = std::move(lanes);
    fmt::print("{}\n", json.dump(2));
}

}  // namespace

int show_verb(const Arguments& arguments) {
    std::string path;
    bool grid = false, json = false;
    GridOptions options;
    const Usage usage{
        "show",
        "Prints a schedule in the text form or as a grid, or the summary of a trace.",
        "FILE",
        &path,
        {{"--grid", "", "ranks x lanes against steps of an idealised run; problems are marked", nullptr, &grid},
         {"--columns", "N", "widest grid to print (160)", nullptr, nullptr, &options.max_columns},
         {"--ranks", "N", "most ranks in a grid (32)", nullptr, nullptr, &options.max_ranks},
         {"--json", "", "counts of a schedule, or a trace's summary, as JSON", nullptr, &json}},
        "  sluice show step.schedule --grid\n"
        "  sluice show step.trace\n"
        "  sluice show tests/golden/schedules/multiplexed.txt --grid --columns 80"};
    if (!parse_arguments(usage, arguments)) return 0;
    if (is_trace(path)) {
        if (grid) throw InputError(fmt::format("{}: a trace has no grid; sluice export draws it", path));
        return show_trace(path, json);
    }

    const Schedule schedule = read_schedule(path);
    if (json)
        print_counts(schedule);
    else if (grid)
        write_output("-", [&](std::ostream& out) { out << grid_view(schedule, verify(schedule), options); });
    else
        write_output("-", [&](std::ostream& out) { out << to_text(schedule); });
    return 0;
}

}  // namespace sluice

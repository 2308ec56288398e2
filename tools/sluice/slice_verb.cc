#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format_units.h"
#include "scenarios/scenario.h"
#include "schedule/schedule_file.h"
#include "tools/sluice/output.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/report.h"
#include "tools/sluice/slice_run.h"
#include "tools/sluice/verbs.h"
#include "traces/step_summary.h"
#include "traces/trace_file.h"

namespace sluice {
namespace {

std::string slice_text(const SlicedRun& run, std::size_t whole_ops) {
    const Scenario& s = run.planned.scenario;
    const StepSummary summary = summarize_step(run.predicted);
    const auto own = std::count_if(run.planned.schedule.ops.begin(), run.planned.schedule.ops.end(),
                                   [&](const Op& op) { return op.rank == *run.planned.alone; });
    std::string text = fmt::format("{}: rank {} of {}: {} ops and {} ends of its messages, of {} ops\n", s.name,
                                   index(*run.planned.alone), s.ranks(), own,
                                   run.planned.schedule.ops.size() - static_cast<std::size_t>(own), whole_ops);
    text += fmt::format("  predicted step    {}, compute of the rank {} (calibration {})\n", format(run.predicted.step),
                        format(run.planned.floor), s.calibration.name);
    text += fmt::format("  arenas            {} device, {} host\n", format(summary.device_peaks.front().arena),
                        format(summary.host_peaks.front().arena));
    return text;
}

std::string slice_json(const SlicedRun& run, std::size_t whole_ops) {
    const StepSummary summary = summarize_step(run.predicted);
    return nlohmann::ordered_json{{"rank", index(*run.planned.alone)},
                                  {"ranks", run.planned.scenario.ranks()},
                                  {"ops", run.planned.schedule.ops.size()},
                                  {"whole_ops", whole_ops},
                                  {"predicted_step_seconds", run.predicted.step.value},
                                  {"compute_seconds", run.planned.floor.value},
                                  {"device_arena_bytes", summary.device_peaks.front().arena.value},
                                  {"host_arena_bytes", summary.host_peaks.front().arena.value}}
        .dump();
}

}  // namespace

int slice_verb(const Arguments& arguments) {
    std::string path, output, predicted, rank = "0";
    bool json = false;
    const Usage usage{
        "slice",
        "Plans a scenario layer by layer and cuts out what one rank does, with the other ends of its messages: a\n"
        "schedule to be run alone by sluice run --rank-slice, on one GPU for a plan of many.",
        "SCENARIO",
        &path,
        {{"--rank", "R", "which rank (0)", &rank},
         {"-o,--output", "FILE", "where to; .txt is the text form, anything else binary", &output},
         {"--predicted", "FILE", "write what the step of all ranks is foretold to be, of the slice's ops alone",
          &predicted},
         {"--json", "", "say in JSON what was written", nullptr, &json}},
        "  sluice slice scenarios/tiny.yaml --rank 1 -o mine.txt\n"
        "  sluice slice scenarios/slice-gpt7b-1m-h200x32.yaml --rank 24 -o rank24.schedule --predicted rank24.trace"};
    if (!parse_arguments(usage, arguments)) return 0;
    if (output.empty() || output == "-")
        throw InputError("sluice slice: --output is missing, expected a file for the schedule");
    require_writable(output);
    if (!predicted.empty()) require_writable(predicted);

    const Scenario scenario = read_scenario(path);
    std::vector<std::string> refused;
    std::optional<PlannedRun> planned = plan_run(scenario, refused);
    if (!planned) {
        Lowered nothing;
        nothing.reasons = refused;
        fmt::print(stderr, "{}", infeasible_text(scenario, nothing));
        return 1;
    }
    const Rank alone = read_rank(rank, planned->schedule.ranks.size(), "sluice slice: --rank");
    const std::size_t whole_ops = planned->schedule.ops.size();
    const SlicedRun run = slice_run(std::move(*planned), alone);
    write_schedule(output, run.planned.schedule);
    if (!predicted.empty()) write_trace(predicted, run.predicted);
    fmt::print("{}", json ? slice_json(run, whole_ops) + "\n" : slice_text(run, whole_ops));
    return 0;
}

}  // namespace sluice

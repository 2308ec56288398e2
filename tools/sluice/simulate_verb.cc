#include <fmt/format.h>

#include <chrono>

#include "base/error.h"
#include "base/fingerprint.h"
#include "planner/lower.h"
#include "schedule/schedule_file.h"
#include "schedule/verify.h"
#include "sim/simulate.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/progress_line.h"
#include "tools/sluice/report.h"
#include "tools/sluice/verbs.h"
#include "traces/trace_file.h"

namespace sluice {
namespace {

class Stopwatch {
public:
    double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }

private:
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

Lowered obtain(const Scenario& scenario, const std::string& schedule_path, ProgressLine& progress) {
    if (schedule_path.empty())
        return lower(scenario, {[&](std::string_view pass) { progress.show(fmt::format("lower: {}", pass)); }});
    progress.show("reading the schedule");
    Lowered given;
    given.schedule = read_schedule(schedule_path);
    if (static_cast<std::int64_t>(given.schedule.ranks.size()) > scenario.cluster.gpus())
        throw InputError(fmt::format("{}: {} ranks, but cluster {} has {} GPUs", schedule_path, given.schedule.ranks.size(),
                                     scenario.cluster.name, scenario.cluster.gpus()));
    return given;
}

void print_diagnostics(const Diagnostics& diagnostics) {
    for (const Diagnostic& d : diagnostics) fmt::print(stderr, "{}: {}\n", d.rule, d.message);
}

void add_provenance(Trace& trace, const Scenario& scenario, const Schedule& schedule) {
    trace.provenance.scenario = scenario.name;
    trace.provenance.scenario_fingerprint = scenario.fingerprint;
    trace.provenance.schedule_fingerprint = fingerprint_hex(fingerprint(to_binary(schedule)));
}

}  // namespace

int simulate_verb(const Arguments& arguments) {
    std::string path, schedule_path, trace_path;
    bool json = false;
    const Usage usage{"simulate", "Lowers, verifies and replays a scenario and prints what one training step costs.",
                      "SCENARIO", &path,
                      {{"--schedule", "FILE", "replay this schedule on the scenario's cluster instead of lowering one",
                        &schedule_path},
                       {"--trace", "FILE", "write the predicted trace (sluice export turns it into a picture)", &trace_path},
                       {"--json", "", "print the summary as JSON (docs/command.md explains the keys)", nullptr, &json}},
                      "  sluice simulate scenarios/tiny.yaml\n"
                      "  sluice simulate scenarios/sppo-gpt7b-4m-a100x128.yaml --json --trace step.trace\n"
                      "  sluice simulate scenarios/tiny.yaml --schedule mine.txt"};
    if (!parse_arguments(usage, arguments)) return 0;

    const Scenario scenario = read_scenario(path);
    ProgressLine progress;
    WallSeconds wall;
    const Stopwatch lowering;
    const Lowered lowered = obtain(scenario, schedule_path, progress);
    wall.lower = lowering.seconds();
    Prediction prediction{scenario, lowered};
    if (!lowered.feasible()) {
        prediction.wall = wall;
        progress.show("");
        fmt::print("{}", json ? prediction_json(prediction) + "\n" : infeasible_text(scenario, lowered));
        return 1;
    }

    progress.show("verify");
    const Stopwatch verifying;
    const Diagnostics diagnostics = verify(lowered.schedule);
    wall.verify = verifying.seconds();
    if (!diagnostics.empty()) {
        progress.show("");
        if (schedule_path.empty())
            throw InternalError(fmt::format("the planner made an invalid schedule: {}", diagnostics.front().message));
        print_diagnostics(diagnostics);
        return 1;
    }

    const Stopwatch replaying;
    SimulateOptions options;
    if (progress.active()) options.progress = [&](double fraction) { progress.show("replay", fraction); };
    Simulation simulation = simulate(lowered.schedule, scenario.cluster, scenario.calibration, options);
    wall.replay = replaying.seconds();
    progress.show("");
    if (!simulation.stuck.empty()) {
        print_diagnostics(simulation.stuck);
        return 1;
    }
    add_provenance(simulation.trace, scenario, lowered.schedule);
    if (!trace_path.empty()) write_trace(trace_path, simulation.trace);

    prediction.simulation = &simulation;
    prediction.summary = summarize_step(simulation.trace);
    prediction.wall = wall;
    fmt::print("{}", json ? prediction_json(prediction) + "\n" : prediction_text(prediction));
    return 0;
}

}  // namespace sluice

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/fingerprint.h"
#include "planner/lower.h"
#include "schedule/schedule_file.h"
#include "schedule/verify.h"
#include "sim/simulate.h"
#include "tools/sluice/choose_plan.h"
#include "tools/sluice/job_pair.h"
#include "tools/sluice/output.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/progress_line.h"
#include "tools/sluice/report.h"
#include "tools/sluice/verbs.h"
#include "traces/trace_file.h"

namespace sluice {
namespace {

constexpr double kMaxSlowdown = 0.05;

// Runs `work`; `seconds` is how long it took.
template <class Work>
auto timed(double& seconds, const Work& work) {
    const auto began = std::chrono::steady_clock::now();
    auto result = work();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return result;
}

Lowered obtain(const Scenario& scenario, const std::string& schedule_path, ProgressLine& progress) {
    if (schedule_path.empty())
        return lower(scenario, {[&](std::string_view pass) { progress.show(fmt::format("lower: {}", pass)); }});
    progress.show("reading the schedule");
    Lowered given;
    given.schedule = read_schedule(schedule_path);
    if (static_cast<std::int64_t>(given.schedule.ranks.size()) > scenario.cluster.gpus())
        throw InputError(fmt::format("{}: {} ranks, but cluster {} has {} GPUs", schedule_path,
                                     given.schedule.ranks.size(), scenario.cluster.name, scenario.cluster.gpus()));
    given.plan.notes.push_back(fmt::format("the schedule is that of {}; rates take it for a step of {} tokens",
                                           schedule_path, scenario.sequence.value * scenario.batch));
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

struct Outcome {
    Lowered lowered;
    Diagnostics problems;                  // of a given schedule
    PinnedMemory pinned;
    std::optional<Simulation> simulation;  // when feasible and without problems
    WallSeconds wall;
};

Outcome run(const Scenario& scenario, const std::string& schedule_path) {
    ProgressLine progress;
    Outcome out;
    out.lowered = timed(out.wall.lower, [&] { return obtain(scenario, schedule_path, progress); });
    if (!out.lowered.feasible()) return out;

    progress.show("verify");
    out.problems = timed(out.wall.verify, [&] { return verify(out.lowered.schedule); });
    if (!out.problems.empty() && schedule_path.empty())
        throw InternalError(fmt::format("the planner made an invalid schedule: {}", out.problems.front().message));
    out.pinned = place_pinned(pinned_bytes(out.lowered.schedule, scenario.cluster.host.allocator), scenario.cluster);
    for (std::string& line : host_shortages(out.pinned, scenario.cluster))  // a given schedule has limits of its own
        out.problems.push_back({"host-capacity", kNoOp, kNoBuffer, std::move(line)});
    if (!out.problems.empty()) return out;

    SimulateOptions options;
    if (progress.active()) options.progress = [&](double fraction) { progress.show("replay", fraction); };
    Simulation simulation = timed(out.wall.replay, [&] {
        return simulate(out.lowered.schedule, scenario.cluster, scenario.calibration, options);
    });
    out.problems = simulation.stuck;
    if (out.problems.empty()) out.simulation = std::move(simulation);
    return out;
}

int print_refusal(const Scenario& scenario, Outcome& out, bool json) {
    for (const Diagnostic& d : out.problems) out.lowered.reasons.push_back(fmt::format("{}: {}", d.rule, d.message));
    if (json)
        fmt::print("{}\n", prediction_json({.scenario = scenario, .lowered = out.lowered, .wall = out.wall}));
    else if (out.problems.empty())
        fmt::print("{}", infeasible_text(scenario, out.lowered));
    else
        print_diagnostics(out.problems);
    return 1;
}

// "5%" is 0.05.
double read_percentage(const std::string& text) {
    double percent = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, percent);
    if (error != std::errc{} || at + 1 != end || *at != '%' || !(percent >= 0 && percent <= 1000))
        throw InputError(fmt::format("sluice simulate: --max-slowdown: got '{}', expected 0% ... 1000%", text));
    return percent / 100;
}

int simulate_two(Scenario a, const std::string& other, double max_slowdown, bool json) {
    Scenario b = read_scenario(other);
    JobPair refused{{}, {}, {}, max_slowdown};
    for (Scenario* scenario : {&a, &b})
        for (const std::string& reason : make_choices(*scenario))
            refused.reasons.push_back(fmt::format("{} does not fit by itself: {}", scenario == &a ? "A" : "B", reason));
    const JobPair pair = refused.reasons.empty() ? [&] {
        ProgressLine progress;
        return pair_jobs(a, b, max_slowdown, progress);
    }()
                                                 : std::move(refused);
    fmt::print("{}", json ? pair_json(pair) + "\n" : pair_text(pair));
    return pair.reasons.empty() ? 0 : 1;
}

}  // namespace

int simulate_verb(const Arguments& arguments) {
    std::string path, other_path, schedule_path, trace_path, max_slowdown;
    bool json = false;
    const Usage usage{
        "simulate",
        "Lowers, verifies and replays a scenario and prints what one training step costs. With two scenarios: both at\n"
        "once on the same nodes, each on GPUs of its own, and how much slower that makes each.",
        "SCENARIO",
        &path,
        {{"--schedule", "FILE", "replay this schedule on the scenario's cluster instead of lowering one",
          &schedule_path},
         {"--trace", "FILE", "write the predicted trace (sluice export turns it into a picture)", &trace_path},
         {"--max-slowdown", "PERCENT", "two scenarios: refuse when a step takes longer than alone by more (5%)",
          &max_slowdown},
         {"--json", "", "print the summary as JSON (docs/command.md explains the keys)", nullptr, &json}},
        "  sluice simulate scenarios/tiny.yaml\n"
        "  sluice simulate scenarios/sppo-gpt7b-4m-a100x128.yaml --json --trace step.trace\n"
        "  sluice simulate scenarios/tiny.yaml --schedule mine.txt\n"
        "  sluice simulate mine.yaml theirs.yaml --max-slowdown 2%",
        "OTHER",
        &other_path};
    if (!parse_arguments(usage, arguments)) return 0;
    if (trace_path == "-") throw InputError("sluice simulate: --trace -: the summary goes to stdout, expected a file");
    if (!trace_path.empty()) require_writable(trace_path);

    const bool two = !other_path.empty();
    if (two && (!schedule_path.empty() || !trace_path.empty()))
        throw InputError("sluice simulate: --schedule and --trace take one scenario, got two");
    if (!two && !max_slowdown.empty()) throw InputError("sluice simulate: --max-slowdown takes two scenarios, got one");
    const double slowdown = max_slowdown.empty() ? kMaxSlowdown : read_percentage(max_slowdown);

    Scenario scenario = read_scenario(path);
    if (two) return simulate_two(std::move(scenario), other_path, slowdown, json);
    if (std::vector<std::string> refusals = make_choices(scenario); !refusals.empty()) {
        Outcome nothing;
        nothing.lowered.reasons = std::move(refusals);
        return print_refusal(scenario, nothing, json);
    }
    Outcome out = run(scenario, schedule_path);
    if (!out.simulation) return print_refusal(scenario, out, json);

    Trace& trace = out.simulation->trace;
    add_provenance(trace, scenario, out.lowered.schedule);
    if (!trace_path.empty()) write_trace(trace_path, trace);
    const Prediction prediction{scenario,   out.lowered, &*out.simulation, summarize_step(trace),
                                out.pinned, out.wall};
    fmt::print("{}", json ? prediction_json(prediction) + "\n" : prediction_text(prediction));
    return 0;
}

}  // namespace sluice

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/format_units.h"
#include "tools/sluice/adapt_placement.h"
#include "tools/sluice/choose_plan.h"
#include "tools/sluice/predicted_trace.h"
#include "tools/sluice/report.h"
#include "tools/sluice/run_request.h"
#include "tools/sluice/training_run.h"
#include "tools/sluice/verbs.h"
#include "traces/trace_file.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Whole lines, flushed one by one: a run that is killed leaves every step that it finished.
class Log {
public:
    explicit Log(const std::string& path) {
        if (path.empty()) return;
        file_.reset(std::fopen(path.c_str(), "a"));
        if (!file_) throw EnvironmentError(fmt::format("{}: cannot be opened to append", path));
    }
    void line(const std::string& text) {
        if (!file_) return;
        fmt::print(file_.get(), "{}\n", text);
        if (std::fflush(file_.get()) != 0) throw EnvironmentError("the log cannot be written");
    }

private:
    struct Close {
        void operator()(std::FILE* f) const { std::fclose(f); }
    };
    std::unique_ptr<std::FILE, Close> file_;
};

int print_refusal(const Scenario& scenario, const std::vector<std::string>& reasons, bool json) {
    if (json) {
        fmt::print("{}\n", Json{{"feasible", false}, {"reasons", reasons}}.dump());
        return 1;
    }
    Lowered nothing;
    nothing.reasons = reasons;
    fmt::print("{}", infeasible_text(scenario, nothing));
    return 1;
}

// The replays fork: before the run starts its threads.
void print_prediction(const PlannedRun& planned, const RunRequest& request) {
    Seconds step{};
    if (!request.predicted.empty()) {
        const Trace trace = predicted_trace(planned);
        step = trace.step;
        write_trace(request.predicted, trace);
    }
    if (request.json) return;
    if (step.value == 0) step = replayed_step(planned.schedule, planned.scenario);
    const Policy& p = planned.scenario.policy;
    fmt::print("{}: {}, {} tokens x {}, sp {} x pp {} x dp {}, n {}, {} steps\n", planned.scenario.name,
               planned.scenario.model.name, planned.scenario.sequence.value, planned.scenario.batch, p.sp, p.pp, p.dp,
               p.n, request.options.steps);
    fmt::print("  predicted step    {}, floor {} (calibration {})\n", format(step), format(planned.floor),
               planned.scenario.calibration.name);
    std::fflush(stdout);
}

// What a run says while it goes on, to the user and into the log.
class Story {
public:
    explicit Story(const RunRequest& request) : request_(request), log_(request.log) {}

    void step(const StepRecord& record) { say(step_line(record, request_.options.steps), step_json(record)); }
    void event(const StepRecord& record, const char* key, const std::string& text) {
        say(text, Json{{"after_step", record.report.step}, {key, text}}.dump());
    }

private:
    void say(const std::string& text, const std::string& json) {
        fmt::print("{}\n", request_.json ? json : text);
        std::fflush(stdout);
        log_.line(json);
    }

    const RunRequest& request_;
    Log log_;
};

// Returns the plan that ran last, where it is not the first one.
std::optional<PlannedRun> train(TrainingRun& run, const RunRequest& request) {
    Story story(request);
    std::optional<Adaptation> adaptation;
    if (request.patience > 0) adaptation.emplace(request.patience, run.planned().scenario);
    bool replaced = false, stepped = false;
    while (!run.done()) {
        const StepRecord record = run.step([&](const StepRecord& ended) { story.step(ended); });
        stepped = true;
        if (!adaptation || run.done()) continue;
        const Adaptation::Decision decision = adaptation->after_step(run, record);
        for (const std::string& advice : decision.advice) story.event(record, "advice", advice);
        if (decision.reason.empty()) continue;
        replaced = true;
        story.event(record, "adapted", decision.reason);
    }
    if (!request.trace.empty() && stepped) write_trace(request.trace, run.trace());
    return replaced ? std::optional(run.planned()) : std::nullopt;
}

}  // namespace

int run_verb(const Arguments& arguments) {
    const std::optional<RunRequest> request = read_run_request(arguments);
    if (!request) return 0;
    std::vector<std::string> refused, notes;
    const Scenario scenario = read_scenario(request->scenario);
    std::optional<PlannedRun> planned = plan_run(scenario, refused);
    if (!planned) return print_refusal(scenario, refused, request->json);
    expect_usable(request->options, planned->scenario);
    print_prediction(*planned, *request);

    std::optional<PlannedRun> adapted;
    {
        TrainingRun run(std::move(*planned), request->options, notes);
        if (run.done()) notes.push_back(fmt::format("step {} is done already: nothing to run", request->options.steps));
        for (const std::string& note : notes) fmt::print(stderr, "{}\n", note);
        adapted = train(run, *request);
    }
    // So that it still is the prediction of what was measured.
    if (adapted && !request->predicted.empty()) write_trace(request->predicted, predicted_trace(*adapted));
    return 0;
}

}  // namespace sluice

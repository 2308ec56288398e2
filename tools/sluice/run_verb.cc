#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/format_units.h"
#include "models/kernel_cost.h"
#include "tools/sluice/adapt_placement.h"
#include "tools/sluice/choose_plan.h"
#include "tools/sluice/parse_fault.h"
#include "tools/sluice/predicted_trace.h"
#include "tools/sluice/report.h"
#include "tools/sluice/run_job.h"
#include "tools/sluice/run_request.h"
#include "tools/sluice/slice_run.h"
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

// No op that is as long as predicted is taken for a stuck one.
std::chrono::milliseconds stall_limit(const RunRequest& request, const PlannedRun& planned) {
    Seconds limit = request.stall.value_or(Seconds{5});
    if (!request.stall)
        for (const Op& op : planned.schedule.ops)
            if (const auto* work = std::get_if<Compute>(&op.work))
                limit = std::max(limit, compute_time(*work, planned.scenario.calibration) * 10.0);
    return std::chrono::milliseconds(static_cast<std::int64_t>(limit.value * 1e3));
}

// What --rank-slice asks for instead of the whole plan; the prediction is of the step of all ranks.
std::optional<PlannedRun> plan_slice(const Scenario& scenario, const RunRequest& request,
                                     std::vector<std::string>& refused) {
    const char* const what = "sluice run: --rank-slice";
    if (!request.slice.empty())
        return read_slice(scenario, request.slice,
                          read_rank(request.rank_slice, static_cast<std::size_t>(scenario.ranks()), what));
    std::optional<PlannedRun> whole = plan_run(scenario, refused);
    if (!whole) return std::nullopt;
    const Rank rank = read_rank(request.rank_slice, whole->schedule.ranks.size(), what);
    SlicedRun sliced = slice_run(std::move(*whole), rank);
    if (!request.predicted.empty()) write_trace(request.predicted, sliced.predicted);
    if (!request.json) fmt::print("predicted step of all ranks {}\n", format(sliced.predicted.step));
    return std::move(sliced.planned);
}

void print_slice(const PlannedRun& planned, const RunRequest& request) {
    if (request.json) return;
    fmt::print("{}: rank {} of {} alone, with stand-ins for its partners{}\n", planned.scenario.name,
               index(*planned.alone), planned.scenario.ranks(),
               request.delays.empty() ? "" : " that take the predicted time");
    fmt::print("  predicted         compute of the rank {} (calibration {})\n", format(planned.floor),
               planned.scenario.calibration.name);
    std::fflush(stdout);
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

// Threads that wait for each other on the CPU are seen to be stuck without a watch.
bool watched(const RunRequest& request) {
    const DeviceOptions& device = request.options.device;
    return device.device == Device::kCuda || request.stall || device.cpu.fault;
}

// Of several processes the first speaks for all.
bool leads(const RunRequest& request) { return request.place.process == 0; }

// What a run says while it goes on, to the user and into the log.
class Story {
public:
    explicit Story(const RunRequest& request) : request_(request), log_(leads(request) ? request.log : "") {}

    void step(const StepRecord& record) { say(step_line(record, request_.options.steps), step_json(record)); }
    void event(const StepRecord& record, const char* key, const std::string& text) {
        say(text, Json{{"after_step", record.report.step}, {key, text}}.dump());
    }

    // For people: lines of steps have it, too.
    void end(const StepRecord& last) {
        if (const std::string text = beyond_line(last); !text.empty() && leads(request_) && !request_.json)
            fmt::print("{}\n", text);
    }

private:
    void say(const std::string& text, const std::string& json) {
        if (!leads(request_)) return;
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
    bool replaced = false;
    std::optional<StepRecord> last;
    while (!run.done()) {
        last = run.step([&](const StepRecord& ended) { story.step(ended); });
        const StepRecord& record = *last;
        if (!adaptation || run.done()) continue;
        const Adaptation::Decision decision = adaptation->after_step(run, record);
        for (const std::string& advice : decision.advice) story.event(record, "advice", advice);
        if (decision.reason.empty()) continue;
        replaced = true;
        story.event(record, "adapted", decision.reason);
    }
    if (last) story.end(*last);
    if (!request.trace.empty() && last && leads(request)) write_trace(request.trace, run.trace());
    return replaced ? std::optional(run.planned()) : std::nullopt;
}

}  // namespace

int run_verb(const Arguments& arguments) {
    std::optional<RunRequest> request = read_run_request(arguments);
    if (!request) return 0;
    std::vector<std::string> refused, notes;
    const Scenario scenario = read_scenario(request->scenario);
    const bool alone = !request->rank_slice.empty();
    std::optional<PlannedRun> planned = alone ? plan_slice(scenario, *request, refused) : plan_run(scenario, refused);
    if (!planned) return print_refusal(scenario, refused, request->json);
    if (alone) {
        if (request->place.processes > 1 || request->options.device.gpus > 1 || request->options.device.parts > 1)
            throw InputError("sluice run: --rank-slice: runs one rank, expected one process, one GPU and all of it");
        StandIns& stand_ins = request->options.device.stand_ins.emplace();
        if (!request->delays.empty()) stand_ins = read_stand_ins(request->delays, *planned);
        print_slice(*planned, *request);
    } else {
        expect_place_for(request->options.device, request->place.processes, planned->schedule.ranks.size());
    }
    if (const auto& fault = request->options.device.cpu.fault) expect_op_of(*fault, planned->schedule, planned->alone);
    expect_usable(request->options, planned->scenario);
    if (!alone && leads(*request)) print_prediction(*planned, *request);

    std::optional<PlannedRun> adapted;
    const auto run = [&] {
        TrainingRun training(std::move(*planned), request->options, notes);
        if (training.done())
            notes.push_back(fmt::format("step {} is done already: nothing to run", request->options.steps));
        for (const std::string& note : notes)
            if (leads(*request)) fmt::print(stderr, "{}\n", note);
        adapted = train(training, *request);
    };
    if (watched(*request)) {
        RunJob job(request->place, planned->schedule, stall_limit(*request, *planned));
        request->options.device.job = &job;
        job.run(run);
    } else {
        run();
    }
    // So that it still is the prediction of what was measured.
    if (adapted && !request->predicted.empty()) write_trace(request->predicted, predicted_trace(*adapted));
    return 0;
}

}  // namespace sluice

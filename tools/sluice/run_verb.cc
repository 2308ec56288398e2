#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/format_units.h"
#include "tools/sluice/adapt_placement.h"
#include "tools/sluice/choose_plan.h"
#include "tools/sluice/output.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/report.h"
#include "tools/sluice/training_run.h"
#include "tools/sluice/verbs.h"
#include "traces/trace_file.h"

namespace sluice {
namespace {

double read_number(const std::string& text, const char* flag, double fallback, double least, double most) {
    if (text.empty()) return fallback;
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || at != end || !(value >= least && value <= most))
        throw InputError(
            fmt::format("sluice run: {}: got '{}', expected a number from {} to {}", flag, text, least, most));
    return value;
}

std::int64_t read_steps(const std::string& text, const char* flag, std::int64_t fallback) {
    if (text.empty() && fallback >= 0) return fallback;
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || at != end || value < 0 || value > 1'000'000'000)
        throw InputError(
            fmt::format("sluice run: {}: got '{}', expected a whole number from 0 to 1000000000", flag, text));
    return value;
}

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

int print_refusal(const Scenario& scenario, const std::vector<std::string>& reasons) {
    Lowered nothing;
    nothing.reasons = reasons;
    fmt::print("{}", infeasible_text(scenario, nothing));
    return 1;
}

// The replay forks: before the run starts its threads.
void print_start(const PlannedRun& planned, const TrainingOptions& options) {
    const Policy& p = planned.scenario.policy;
    fmt::print("{}: {}, {} tokens x {}, sp {} x pp {} x dp {}, n {}, {} steps\n", planned.scenario.name,
               planned.scenario.model.name, planned.scenario.sequence.value, planned.scenario.batch, p.sp, p.pp, p.dp,
               p.n, options.steps);
    fmt::print("  predicted step    {}, floor {} (calibration {})\n",
               format(replayed_step(planned.schedule, planned.scenario)), format(planned.floor),
               planned.scenario.calibration.name);
}

}  // namespace

int run_verb(const Arguments& arguments) {
    std::string path, device = "cpu", steps, data, seed, rate, warmup, clip, checkpoints, every, log_path, trace_path,
                      adapt;
    bool resume = false, json = false, shuffle = false;
    const Usage usage{
        "run",
        "Plans a scenario and trains it for real on this machine: every rank is a thread with memory of its own, "
        "every\n"
        "copy to the host a real copy. Prints a line per step.",
        "SCENARIO",
        &path,
        {{"--device", "DEVICE", "cpu", &device},
         {"--steps", "N", "train until step N has been done", &steps},
         {"--data", "FILE", "text, or tokens as llm.c or Megatron-LM store them", &data},
         {"--shuffle", "", "sequences in an order that --seed decides, another one every epoch", nullptr, &shuffle},
         {"--seed", "N", "of the weights and of the order of sequences (0)", &seed},
         {"--learning-rate", "RATE", "at its peak (3e-4); half a cosine down to a tenth", &rate},
         {"--warmup", "N", "steps of linear warm-up (a tenth of all)", &warmup},
         {"--clip", "NORM", "limit of the gradients' norm, 0 for none (1)", &clip},
         {"--checkpoint", "DIR", "write checkpoints there", &checkpoints},
         {"--every", "N", "steps between checkpoints (only the last)", &every},
         {"--resume", "", "go on from the newest whole checkpoint in DIR, on this plan or another", nullptr, &resume},
         {"--adapt", "K", "solve the placement again when copies were exposed, or windows idle, for K steps", &adapt},
         {"--log", "FILE", "append a line of JSON per step", &log_path},
         {"--trace", "FILE", "write the measured trace of the last step", &trace_path},
         {"--json", "", "print lines of JSON instead", nullptr, &json}},
        "  sluice run scenarios/tiny-cpu.yaml --data README.md --steps 20\n"
        "  sluice run mine.yaml --data corpus.bin --steps 1000 --checkpoint checkpoints --every 50 --resume\n"
        "  sluice run mine.yaml --data corpus.txt --steps 5 --trace measured.trace\n"};
    if (!parse_arguments(usage, arguments)) return 0;
    if (device != "cpu")
        throw InputError(
            fmt::format("sluice run: --device: got '{}', expected cpu: no other backend is built", device));
    if (data.empty()) throw InputError("sluice run: --data is missing, expected a text or token file to train on");
    if (resume && checkpoints.empty()) throw InputError("sluice run: --resume needs --checkpoint DIR");
    if (!trace_path.empty()) require_writable(trace_path);

    TrainingOptions options;
    options.data = data, options.resume = resume, options.checkpoints = checkpoints;
    options.steps = read_steps(steps, "--steps", -1);
    options.seed = static_cast<std::uint64_t>(read_steps(seed, "--seed", 0));
    if (shuffle) options.shuffle_seed = options.seed;
    options.checkpoint_every = read_steps(every, "--every", 0);
    options.clip = read_number(clip, "--clip", 1, 0, 1e30);
    const auto peak = static_cast<float>(read_number(rate, "--learning-rate", 3e-4, 0, 1e3));
    options.learning_rate = {
        peak, peak / 10, std::min(options.steps, read_steps(warmup, "--warmup", options.steps / 10)), options.steps};
    const std::int64_t patience = read_steps(adapt, "--adapt", 0);

    std::vector<std::string> refused, notes;
    const Scenario scenario = read_scenario(path);
    std::optional<PlannedRun> planned = plan_run(scenario, refused);
    if (!planned) return print_refusal(scenario, refused);
    if (!json) print_start(*planned, options);

    TrainingRun run(std::move(*planned), options, notes);
    for (const std::string& note : notes) fmt::print(stderr, "{}\n", note);
    Log log(log_path);
    std::optional<Adaptation> adaptation;
    if (patience > 0) adaptation.emplace(patience);
    while (!run.done()) {
        const StepRecord record = run.step();
        const std::string line = step_json(record);
        fmt::print("{}\n", json ? line : step_line(record, options.steps));
        std::fflush(stdout);
        log.line(line);
        if (!adaptation || run.done()) continue;
        if (const auto change = adaptation->after_step(run, record)) {
            if (!json) fmt::print("{}\n", *change);
            log.line(fmt::format("{{\"adapted\": \"{}\"}}", *change));
        }
    }
    if (!trace_path.empty() && run.session().steps() > 0) write_trace(trace_path, run.trace());
    return 0;
}

}  // namespace sluice

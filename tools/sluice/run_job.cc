#include "tools/sluice/run_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/fingerprint.h"
#include "schedule/schedule_file.h"
#include "tools/sluice/run_job_records.h"

namespace sluice {
namespace {

std::vector<Rank> ranks_of(const LaunchPlace& place, std::size_t ranks) {
    if (ranks % place.processes != 0)
        throw InputError(
            fmt::format("sluice run: got {} ranks for {} processes, expected a multiple: every process runs "
                        "equally many",
                        ranks, place.processes));
    const std::size_t each = ranks / place.processes;
    std::vector<Rank> local;
    for (std::size_t k = 0; k < each; ++k) local.push_back(id_at<Rank>(place.process * each + k));
    return local;
}

std::string name_of(const std::vector<Rank>& ranks) {
    if (ranks.size() == 1) return fmt::format("rank {}", index(ranks[0]));
    return fmt::format("ranks {} to {}", index(ranks.front()), index(ranks.back()));
}

// A call that never returns keeps its thread, and with it the process: all that is left to do is to say why.
[[noreturn]] void abandon(const JobVerdict& verdict) {
    fmt::print(stderr, "{}\n", verdict.line);
    std::fflush(stderr);
    std::_Exit(verdict.kind == FailureKind::kInput ? 2 : 3);
}

}  // namespace

// The engine comes and goes while the job is watched. Two locks, so that a look at its device that does not end keeps
// nobody from stopping it, not even while it waits to go.
struct RunJob::Watched {
    std::mutex looking;                 // by who looks at its device
    std::mutex calling;                 // by who calls what returns at once
    Engine* engine = nullptr;           // written with both
    std::optional<RunFailure> failure;  // of one that has gone, since its run is being unwound

    // With a lock of the two.
    template <class Ask, class Result = std::invoke_result_t<Ask, Engine&>>
    Result ask(std::mutex& mutex, const Ask& ask) {
        const std::lock_guard lock(mutex);
        if (engine == nullptr) return Result();
        return ask(*engine);
    }

    std::optional<RunFailure> failed() {
        const std::lock_guard lock(calling);
        return engine == nullptr ? failure : engine->failure();
    }

    void set(Engine* next) {
        const std::lock_guard looks(looking);
        const std::lock_guard calls(calling);
        failure = engine == nullptr ? std::nullopt : engine->failure();
        engine = next;
    }
};

RunJob::RunJob(const LaunchPlace& place, const Schedule& schedule, std::chrono::milliseconds stall)
    : place_(place), local_(ranks_of(place, schedule.ranks.size())), watched_(std::make_unique<Watched>()) {
    JobLimits limits;
    limits.join = std::chrono::minutes(5);  // others may still plan, or load a library
    limits.watch.stall = stall;
    rendezvous_ =
        std::make_unique<Rendezvous>(place, JobMember{name_of(local_), fingerprint(to_binary(schedule))}, limits);
    JobRun run;
    Watched& w = *watched_;
    run.in_step = [&w] { return w.ask(w.calling, [](Engine& e) { return e.in_step(); }); };
    run.failure = [&w] { return w.failed(); };
    run.stop = [&w](FailureKind kind, const std::string& message) {
        w.ask(w.calling, [&](Engine& e) { return e.stop(kind, message), 0; });
    };
    run.abandon = abandon;
    run.ended_ops = [&w] { return w.ask(w.looking, [](Engine& e) { return e.ended_ops(); }); };
    run.in_flight = [&w] { return w.ask(w.looking, [](Engine& e) { return e.in_flight(); }); };
    watch_ = std::make_unique<Rendezvous::Watch>(*rendezvous_, std::move(run));
}

RunJob::~RunJob() = default;

bool RunJob::leads() const { return place_.process == 0; }

void RunJob::watch(Engine* engine) { watched_->set(engine); }

void RunJob::run(const std::function<void()>& body) { run_in_job(*rendezvous_, body); }

RunPart RunJob::part() {
    if (place_.processes == 1) return {local_, {}};
    return {local_, [this](const std::vector<StepFindings>& local) { return share(local); }};
}

// By rank: processes run theirs in order.
std::vector<StepFindings> RunJob::share(const std::vector<StepFindings>& local) {
    std::vector<StepFindings> all;
    for (const std::vector<std::byte>& bytes : rendezvous_->gather("findings", encode_findings(local)))
        for (StepFindings& f : decode_findings(bytes)) all.push_back(std::move(f));
    return decode_findings(rendezvous_->broadcast("findings of all", encode_findings(all)));
}

StepTimes RunJob::gather_times(const Schedule& schedule, const StepTimes& times) {
    if (place_.processes == 1) return times;
    const std::vector<ClockOffset> offsets = rendezvous_->clock_offsets();
    const auto of_all = rendezvous_->gather("times", encode_times(schedule, times, local_));
    StepTimes all = times;
    for (std::size_t p = 1; p < of_all.size(); ++p) read_times(of_all[p], schedule, offsets[p].nanoseconds, all);
    return all;
}

std::vector<WholeParameter> RunJob::gather_parameters(std::vector<WholeParameter> parameters) {
    if (place_.processes == 1) return parameters;
    std::map<std::string, WholeParameter> mine;
    std::vector<std::string> names;
    for (WholeParameter& p : parameters) {
        names.push_back(p.name);
        mine[p.name] = std::move(p);
    }
    std::set<std::string> all_names;
    for (const std::vector<std::byte>& bytes : rendezvous_->gather("names of parameters", encode_names(names)))
        for (std::string& name : decode_names(bytes)) all_names.insert(std::move(name));
    names.assign(all_names.begin(), all_names.end());
    names = decode_names(rendezvous_->broadcast("names of all parameters", encode_names(names)));
    // One after another: process 0 holds what is being moved once more, and never all of it.
    for (const std::string& name : names) {
        const auto found = mine.find(name);
        const bool sends = !leads() && found != mine.end();
        const auto of_all = rendezvous_->gather("parameter " + name,
                                                sends ? encode_parameter(found->second) : std::vector<std::byte>{});
        for (std::size_t p = 1; p < of_all.size(); ++p) {
            if (of_all[p].empty()) continue;
            WholeParameter& whole = mine[name];
            whole.name = name;
            merge_parameter(of_all[p], whole);
        }
    }
    parameters.clear();
    for (auto& [name, parameter] : mine) parameters.push_back(std::move(parameter));
    return parameters;
}

void RunJob::expect_same(std::string_view what, const std::string& text) {
    if (place_.processes == 1) return;
    const auto told = rendezvous_->broadcast(what, std::as_bytes(std::span(text)));
    const std::string_view first(reinterpret_cast<const char*>(told.data()), told.size());
    if (first != text)
        throw InputError(
            fmt::format("{} is another one here: got '{}', expected '{}' as process 0 has it", what, text, first));
}

}  // namespace sluice

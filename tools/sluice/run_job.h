// The job that a run is part of: the processes that share a schedule's ranks, what they tell each other between steps,
// and the watch over the steps. A run of one process is a job, too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "runtime/decoder/session.h"
#include "runtime/rendezvous/launch_place.h"
#include "runtime/rendezvous/rendezvous.h"
#include "runtime/step_times.h"
#include "schedule/schedule.h"

namespace sluice {

class RunJob {
public:
    // Joins the others; every process runs equally many of the schedule's ranks, those of process 0 first. `stall`: see
    // WatchLimits. Throws InputError where they cannot be shared out, or as Rendezvous does.
    RunJob(const LaunchPlace& place, const Schedule& schedule, std::chrono::milliseconds stall);
    ~RunJob();

    bool leads() const;  // process 0: it speaks for all, and writes what a run writes
    const std::vector<Rank>& local() const { return local_; }
    std::uint32_t local_process() const { return place_.local; }
    std::uint32_t processes() const { return place_.processes; }
    Rendezvous& rendezvous() { return *rendezvous_; }

    // For the session.
    RunPart part();

    // Runs what this process does in the job: when it throws, all processes end, and the job's verdict is thrown.
    void run(const std::function<void()>& body);

    // Calls of all processes. At process 0: the times of all ranks' ops, on its clock; the parameters put together.
    // Elsewhere what was given.
    StepTimes gather_times(const Schedule& schedule, const StepTimes& times);
    std::vector<WholeParameter> gather_parameters(std::vector<WholeParameter> parameters);
    // InputError where another process says something else; `what` names it: "the checkpoint to resume from".
    void expect_same(std::string_view what, const std::string& text);

private:
    friend class EngineWatch;

    void watch(Engine* engine);
    std::vector<StepFindings> share(const std::vector<StepFindings>& local);

    struct Watched;
    const LaunchPlace place_;
    std::vector<Rank> local_;
    std::unique_ptr<Watched> watched_;
    std::unique_ptr<Rendezvous> rendezvous_;
    std::unique_ptr<Rendezvous::Watch> watch_;
};

// The engine that a job watches, until this goes, which must be before the engine does.
class EngineWatch {
public:
    EngineWatch() = default;
    EngineWatch(RunJob* job, Engine* engine) : job_(job) {  // null: nobody watches
        if (job_ != nullptr) job_->watch(engine);
    }
    ~EngineWatch() {
        if (job_ != nullptr) job_->watch(nullptr);
    }
    EngineWatch(EngineWatch&& other) noexcept : job_(std::exchange(other.job_, nullptr)) {}
    EngineWatch& operator=(EngineWatch&& other) noexcept {
        std::swap(job_, other.job_);
        return *this;
    }

private:
    RunJob* job_ = nullptr;
};

}  // namespace sluice

// Runs a schedule on the CPU: ranks and their lanes are threads of this process, devices are arenas.
//
//   RunMonitor monitor;
//   std::vector<RankArenas> arenas = map_arenas(schedule, all_ranks(schedule));
//   Communicators communicators(schedule, monitor);
//   CpuRun run(schedule, arenas, monitor, run_op, options);       // run_op finds bytes in arenas, partners in
//   communicators run.run_step(); Trace trace = measured_trace(schedule, run.times(), provenance);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/backend.h"
#include "runtime/executor.h"
#include "runtime/fault.h"
#include "runtime/kernel_clock.h"
#include "runtime/rank_arenas.h"
#include "runtime/run_monitor.h"
#include "runtime/step_times.h"
#include "schedule/schedule.h"

namespace sluice {

class CpuBackend;

struct CopyDelays {
    std::uint64_t seed = 0;
    Seconds most{200e-6};  // each copy sleeps up to this long before it begins and again before it ends
};

// Disturbances, for tests and demonstrations. None by default.
struct CpuOptions {
    // Blocks of buffers that are not persistent are filled with kPoison as soon as their last user in the step has
    // ended, and everything that is not persistent before the first step. docs/runtime.md says why that is safe.
    bool poison_on_release = false;
    std::optional<CopyDelays> delay_copies;
    // Copies are held up to be no faster.
    std::optional<BytesPerSecond> copy_out_limit, copy_in_limit;
    // A stalled op keeps its thread for ever: the destructor of the run then never returns.
    std::optional<Fault> fault;
};

class CpuRun {
public:
    // Runs the ranks that `arenas` are of. Refers to everything but `options`. Starts a thread per rank and per lane.
    // Throws InputError for a schedule that cannot be issued or whose copies do not copy as many bytes as they read and
    // write.
    CpuRun(const Schedule& schedule, std::span<const RankArenas> arenas, RunMonitor& monitor, RunOp run_op,
           const CpuOptions& options = {});
    ~CpuRun();

    // As Executor::run_step().
    void run_step();

    // Of the last step.
    const StepTimes& times() const { return times_; }
    Seconds step_time() const;

    // For a thread that watches, at any time: ops of all steps that have ended; those that have begun and not ended, in
    // one line.
    std::uint64_t ended_ops() const;
    std::string in_flight() const;

    // From the next step on; between steps only.
    void limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit);

private:
    const Schedule& schedule_;
    RunMonitor& monitor_;
    RunOp run_op_;
    StepTimes times_;
    std::vector<RankProgram> programs_;
    std::vector<CpuBackend*> lanes_;  // the same objects as backends_
    std::vector<std::unique_ptr<Backend>> backends_;
    std::unique_ptr<Executor> executor_;
};

}  // namespace sluice

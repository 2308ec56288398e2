// The lanes of one rank as threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/backend.h"
#include "runtime/block_releases.h"
#include "runtime/copy_pieces.h"
#include "runtime/cpu/cpu_run.h"
#include "runtime/kernel_clock.h"
#include "runtime/rank_arenas.h"
#include "runtime/rank_program.h"
#include "runtime/run_monitor.h"
#include "runtime/signal.h"
#include "runtime/step_times.h"
#include "schedule/schedule.h"

namespace sluice {

// A lane's thread takes the lane's ops in order: waits until the op has been issued and for its events on other lanes,
// runs it, and counts it as ended; the event (lane, place) has happened when that count has come so far. Counts go on
// from step to step, so nothing is reset between steps.
class CpuBackend : public Backend {
public:
    // Refers to everything. Starts the threads.
    CpuBackend(const Schedule& schedule, const RankProgram& program, const RankArenas& arenas, RunMonitor& monitor,
               const RunOp& run_op, StepTimes& times, const CpuOptions& options);
    // Requires: the run was stopped.
    ~CpuBackend() override;

    void begin_step(std::uint64_t step) override;
    void issue(const IssuedOp& op) override;
    void finish_step() override;

    // Between steps.
    void limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit);

    // Marks the ops of this step that have ended, for reports on a step that no thread goes on with.
    void mark_ended(std::vector<bool>& ended) const;
    // At any time, by any thread: the ops that have begun and not ended; how many of all steps have ended.
    std::vector<OpId> begun() const;
    std::uint64_t ended_ops() const;

private:
    struct LaneThread {
        Lane lane;
        std::uint32_t number = 0;                    // of the lane in the program
        std::vector<const IssuedOp*> ops;            // in lane order
        std::vector<std::vector<CopyPiece>> copies;  // by place - 1; empty but for copies
        alignas(64) Signal issued;                   // ops, of all steps
        alignas(64) Signal ended;
        std::atomic<std::uint32_t> place{0};  // of the op that it is at, 0 before the first
        std::atomic<bool> running{false};     // the op has begun
        std::minstd_rand random;
    };

    void prepare_lanes();
    void start_threads();
    void run_lane(LaneThread& lane);
    void run_steps(LaneThread& lane);
    void run(LaneThread& lane, const IssuedOp& op, std::uint64_t step);
    void run_kernels(const Op& op);
    void copy(LaneThread& lane, const IssuedOp& op, std::int64_t begin);
    void delay(LaneThread& lane) const;
    void sleep_until(std::int64_t time) const;
    void release_blocks(const IssuedOp& op);
    std::string where(const LaneThread& lane) const;

    const Schedule& schedule_;
    const RankProgram& program_;
    const RankArenas& arenas_;
    RunMonitor& monitor_;
    const RunOp& run_op_;
    StepTimes& times_;
    const CpuOptions options_;
    std::optional<BlockReleases> releases_;               // with poison_on_release
    std::vector<std::atomic<std::uint32_t>> users_;       // by block of releases_: lanes that still use it in this step
    std::atomic<double> copy_out_limit_, copy_in_limit_;  // bytes per second, 0: none
    std::uint64_t steps_ = 0;                             // begun
    std::vector<std::unique_ptr<LaneThread>> lanes_;
    std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace sluice

// Runs a schedule, step after step: one thread per rank walks the rank's ops once and issues them to its backend.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "runtime/backend.h"
#include "runtime/rank_program.h"
#include "runtime/run_monitor.h"
#include "runtime/signal.h"

namespace sluice {

class Executor {
public:
    // One backend per program. Refers to all of them. Starts the threads. The monitor is to be told of them beforehand,
    // together with all threads of the backends and the one that will call run_step(): one that knew of the lanes alone
    // would take lanes that wait for their first op for a stuck run.
    Executor(std::span<const RankProgram> programs, std::span<const std::unique_ptr<Backend>> backends,
             RunMonitor& monitor);

    // Stops the run and joins.
    ~Executor();
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    // Runs one step and returns when every op of every rank has ended: the next step begins on quiet arenas, so no
    // order is needed across steps. Allocates nothing. Throws the first failure of any thread of the run, as
    // InputError, EnvironmentError or InternalError with one line; after that only destruction is left.
    void run_step();

    std::uint64_t steps() const { return steps_; }
    std::int64_t step_begin() const { return begin_; }  // of the last step, steady_now()
    std::int64_t step_end() const { return end_; }

private:
    void run_rank(std::size_t rank);

    std::span<const RankProgram> programs_;
    std::span<const std::unique_ptr<Backend>> backends_;
    RunMonitor& monitor_;
    Signal started_, ended_;  // steps begun; steps ended, of all ranks together
    std::uint64_t steps_ = 0;
    std::int64_t begin_ = 0, end_ = 0;
    std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace sluice

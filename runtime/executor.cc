#include "runtime/executor.h"

#include <fmt/format.h>

#include <system_error>

#include "base/error.h"
#include "runtime/kernel_clock.h"

namespace sluice {

Executor::Executor(std::span<const RankProgram> programs, std::span<const std::unique_ptr<Backend>> backends,
                   RunMonitor& monitor)
    : programs_(programs), backends_(backends), monitor_(monitor) {
    SLUICE_CHECK(programs.size() == backends.size(), "one backend per rank");
    try {
        for (std::size_t rank = 0; rank < programs.size(); ++rank)
            threads_.emplace_back([this, rank] { run_rank(rank); });
    } catch (const std::system_error& error) {
        monitor_.stop();
        throw EnvironmentError(
            fmt::format("cannot start the thread of rank {}: {}", index(programs[threads_.size()].rank), error.what()));
    }
}

Executor::~Executor() { monitor_.stop(); }

void Executor::run_step() {
    monitor_.throw_failure();
    const std::uint64_t ranks = programs_.size();
    begin_ = steady_now();
    started_.add();
    try {
        monitor_.wait(ended_, (steps_ + 1) * ranks);
    } catch (const RunStopped&) {
        monitor_.throw_failure();
        throw InternalError("the run was stopped in the middle of a step");
    }
    end_ = steady_now();
    ++steps_;
}

void Executor::run_rank(std::size_t rank) {
    try {
        Backend& backend = *backends_[rank];
        for (std::uint64_t step = 0;; ++step) {
            monitor_.wait(started_, step + 1);
            backend.begin_step(step);
            for (const IssuedOp& op : programs_[rank].ops) backend.issue(op);
            backend.finish_step();
            ended_.add();
        }
    } catch (...) {
        monitor_.fail(std::current_exception(), fmt::format("rank {}", index(programs_[rank].rank)));
    }
}

}  // namespace sluice

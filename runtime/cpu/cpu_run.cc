#include "runtime/cpu/cpu_run.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/cpu/cpu_backend.h"
#include "schedule/describe.h"
#include "schedule/op_graph.h"
#include "schedule/op_matches.h"
#include "schedule/op_run.h"
#include "schedule/stuck_ops.h"

namespace sluice {
namespace {

// No thread of the run moves.
std::string explain_stuck(const Schedule& schedule, std::span<CpuBackend* const> backends) {
    std::vector<bool> ended(schedule.ops.size(), false);
    for (const CpuBackend* backend : backends) backend->mark_ended(ended);
    std::vector<OpRun> runs(ended.size());
    for (std::size_t i = 0; i < runs.size(); ++i)
        if (ended[i]) runs[i] = {0, 0};
    std::string text;
    const auto add = [&](const std::string& line) { text += (text.empty() ? "" : "; ") + line; };
    for (const Diagnostic& d : stuck_ops(schedule, OpGraph(schedule), OpMatches(schedule), runs)) add(d.message);
    for (const CpuBackend* backend : backends)
        for (const OpId op : backend->begun()) add(fmt::format("op {} is inside a call", index(op)));
    return text;
}

std::vector<Rank> ranks_of(std::span<const RankArenas> arenas) {
    std::vector<Rank> ranks;
    for (const RankArenas& of_rank : arenas) ranks.push_back(of_rank.rank());
    return ranks;
}

std::size_t count_threads(std::span<const RankProgram> programs) {
    std::size_t threads = 1 + programs.size();
    for (const RankProgram& program : programs) threads += program.lanes.size();
    return threads;
}

}  // namespace

CpuRun::CpuRun(const Schedule& schedule, std::span<const RankArenas> arenas, RunMonitor& monitor, RunOp run_op,
               const CpuOptions& options)
    : schedule_(schedule),
      monitor_(monitor),
      run_op_(std::move(run_op)),
      times_(schedule),
      programs_(rank_programs(schedule, ranks_of(arenas))) {
    monitor_.add_threads(count_threads(programs_));
    try {
        for (std::size_t r = 0; r < programs_.size(); ++r) {
            auto backend =
                std::make_unique<CpuBackend>(schedule, programs_[r], arenas[r], monitor, run_op_, times_, options);
            lanes_.push_back(backend.get());
            backends_.push_back(std::move(backend));
        }
        monitor_.explain_stuck_with([this] { return explain_stuck(schedule_, lanes_); });
        executor_ = std::make_unique<Executor>(programs_, backends_, monitor_);
    } catch (...) {
        monitor_.stop();
        monitor_.explain_stuck_with({});
        throw;
    }
}

CpuRun::~CpuRun() {
    monitor_.stop();
    monitor_.explain_stuck_with({});
}

void CpuRun::run_step() {
    executor_->run_step();
    times_.begin = executor_->step_begin();
}

Seconds CpuRun::step_time() const {
    return Seconds{static_cast<double>(executor_->step_end() - executor_->step_begin()) * 1e-9};
}

std::uint64_t CpuRun::ended_ops() const {
    std::uint64_t ended = 0;
    for (const CpuBackend* const backend : lanes_) ended += backend->ended_ops();
    return ended;
}

std::string CpuRun::in_flight() const {
    std::string text;
    for (const CpuBackend* const backend : lanes_)
        for (const OpId id : backend->begun()) {
            const Op& op = schedule_.ops[index(id)];
            text += fmt::format("{}{}, {}", text.empty() ? "" : "; ", describe(op), describe(op.tag));
        }
    return text;
}

void CpuRun::limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit) {
    for (CpuBackend* const backend : lanes_) backend->limit_copies(lane, limit);
}

}  // namespace sluice

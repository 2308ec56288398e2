#include "runtime/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "schedule/describe.h"

namespace sluice {
namespace {

double bytes_per_second(std::optional<BytesPerSecond> limit) { return limit ? limit->value : 0; }

// Names are for debuggers and profilers: "r3 copy_out". The system keeps 15 characters.
void name_thread(std::jthread& thread, Rank rank, const Lane& lane) {
    const std::string text = fmt::format("r{} {}", index(rank), name(lane.kind)).substr(0, 15);
    ::pthread_setname_np(thread.native_handle(), text.c_str());
}

// A stalled op does not look at the monitor either: it stands for a call that never returns.
[[noreturn]] void suffer(Fault::Kind kind) {
    if (kind == Fault::Kind::kThrow) throw EnvironmentError(kFailsOnPurpose);
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace

CpuBackend::CpuBackend(const Schedule& schedule, const RankProgram& program, const RankArenas& arenas,
                       RunMonitor& monitor, const RunOp& run_op, StepTimes& times, const CpuOptions& options)
    : schedule_(schedule),
      program_(program),
      arenas_(arenas),
      monitor_(monitor),
      run_op_(run_op),
      times_(times),
      options_(options),
      copy_out_limit_(bytes_per_second(options.copy_out_limit)),
      copy_in_limit_(bytes_per_second(options.copy_in_limit)) {
    if (options.poison_on_release) {
        releases_.emplace(schedule, program.rank);
        users_ = std::vector<std::atomic<std::uint32_t>>(releases_->blocks());
        for (std::uint32_t block = 0; block < releases_->blocks(); ++block) users_[block] = releases_->users(block);
        arenas.poison_all();
    }
    prepare_lanes();
    start_threads();
}

CpuBackend::~CpuBackend() = default;

void CpuBackend::prepare_lanes() {
    for (std::uint32_t l = 0; l < program_.lanes.size(); ++l) {
        LaneThread& lane = *lanes_.emplace_back(std::make_unique<LaneThread>());
        lane.lane = program_.lanes[l];
        lane.number = l;
        const CopyDelays delays = options_.delay_copies.value_or(CopyDelays{});
        lane.random.seed(static_cast<std::uint32_t>(delays.seed + 7919 * index(program_.rank) + 101 * l + 1));
    }
    for (const IssuedOp& issued : program_.ops) {
        LaneThread& lane = *lanes_[issued.at.lane];
        const Op& op = schedule_.ops[index(issued.op)];
        lane.ops.push_back(&issued);
        lane.copies.push_back(std::holds_alternative<Copy>(op.work) ? copy_pieces(op, arenas_)
                                                                    : std::vector<CopyPiece>{});
    }
}

void CpuBackend::start_threads() {
    try {
        for (const std::unique_ptr<LaneThread>& lane : lanes_) {
            threads_.emplace_back([this, &lane = *lane] { run_lane(lane); });
            name_thread(threads_.back(), program_.rank, lane->lane);
        }
    } catch (const std::system_error& error) {
        monitor_.stop();
        throw EnvironmentError(fmt::format("cannot start the {} thread of rank {}: {}",
                                           name(lanes_[threads_.size()]->lane.kind), index(program_.rank),
                                           error.what()));
    }
}

// ---- By the rank's thread
// --------------------------------------------------------------------------------------------

void CpuBackend::begin_step(std::uint64_t) { ++steps_; }

void CpuBackend::issue(const IssuedOp& op) { lanes_[op.at.lane]->issued.add(); }

void CpuBackend::finish_step() {
    for (const std::unique_ptr<LaneThread>& lane : lanes_) monitor_.wait(lane->ended, steps_ * lane->ops.size());
}

// ---- By a lane's thread
// ----------------------------------------------------------------------------------------------

void CpuBackend::run_lane(LaneThread& lane) {
    try {
        run_steps(lane);
    } catch (...) {
        monitor_.fail(std::current_exception(), where(lane));
    }
}

void CpuBackend::run_steps(LaneThread& lane) {
    const std::uint64_t ops = lane.ops.size();
    for (std::uint64_t step = 0;; ++step)
        for (std::uint32_t place = 1; place <= ops; ++place) {
            monitor_.wait(lane.issued, step * ops + place);
            lane.place = place;
            const IssuedOp& op = *lane.ops[place - 1];
            for (const LaneEvent& event : op.waits)
                monitor_.wait(lanes_[event.lane]->ended, step * program_.lane_ops[event.lane] + event.place);
            lane.running = true;
            run(lane, op, step + 1);
            lane.running = false;
            lane.ended.add();
        }
}

void CpuBackend::run(LaneThread& lane, const IssuedOp& issued, std::uint64_t step) {
    const Op& op = schedule_.ops[index(issued.op)];
    OpTimes& times = times_.ops[index(op.id)];
    if (strikes(options_.fault, step, op.id)) suffer(options_.fault->kind);
    if (options_.delay_copies && std::holds_alternative<Copy>(op.work)) delay(lane);
    times.begin = steady_now();
    if (std::holds_alternative<Copy>(op.work))
        copy(lane, issued, times.begin);
    else
        run_kernels(op);
    times.end = steady_now();
    if (releases_) release_blocks(issued);
}

void CpuBackend::run_kernels(const Op& op) {
    const std::span<std::int64_t> laps = times_.laps_of(op.id);
    KernelClock clock(laps);
    run_op_(op, clock);
    if (clock.laps() != laps.size())
        throw InternalError(fmt::format("{} kernels were timed, expected the {} of the op", clock.laps(), laps.size()));
}

void CpuBackend::copy(LaneThread& lane, const IssuedOp& issued, std::int64_t begin) {
    std::size_t bytes = 0;
    for (const CopyPiece& piece : lane.copies[issued.at.place - 1]) {
        std::memcpy(piece.to, piece.from, piece.bytes);
        bytes += piece.bytes;
    }
    const double limit = lane.lane.kind == LaneKind::kCopyOut ? copy_out_limit_ : copy_in_limit_;
    if (limit > 0) sleep_until(begin + static_cast<std::int64_t>(static_cast<double>(bytes) / limit * 1e9));
    if (options_.delay_copies) delay(lane);
}

void CpuBackend::delay(LaneThread& lane) const {
    const double part = static_cast<double>(lane.random()) / static_cast<double>(std::minstd_rand::max());
    sleep_until(steady_now() + static_cast<std::int64_t>(part * options_.delay_copies->most.value * 1e9));
}

// In short sleeps, so that a failure elsewhere is not kept waiting.
void CpuBackend::sleep_until(std::int64_t time) const {
    constexpr std::int64_t kLongest = 5'000'000;
    for (std::int64_t left = time - steady_now(); left > 0; left = time - steady_now()) {
        if (monitor_.stopped()) throw RunStopped{};
        std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left, kLongest)));
    }
}

// Comes before the event of the op. Whoever takes the count to zero knows that all users of the block are done with it;
// whoever may write the bytes next waits (rule 5) for the last user on every lane, and so for this.
void CpuBackend::release_blocks(const IssuedOp& op) {
    for (const std::uint32_t block : releases_->of(op.at.lane, op.at.place)) {
        if (users_[block].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        users_[block].store(releases_->users(block), std::memory_order_relaxed);  // for the next step
        const BlockPlace place = releases_->place(block);
        poison(arenas_.span_of(place.buffer, place.block, place.block));
    }
}

std::string CpuBackend::where(const LaneThread& lane) const {
    if (lane.place == 0) return fmt::format("rank {}, {}", index(program_.rank), name(lane.lane.kind));
    const Op& op = schedule_.ops[index(lane.ops[lane.place - 1]->op)];
    return fmt::format("{}, {}", describe(op), describe(op.tag));
}

// ---- Between steps, and when nobody moves
// ----------------------------------------------------------------------------

void CpuBackend::limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit) {
    SLUICE_CHECK(lane == LaneKind::kCopyOut || lane == LaneKind::kCopyIn, "only copies have a limit");
    (lane == LaneKind::kCopyOut ? copy_out_limit_ : copy_in_limit_) = bytes_per_second(limit);
}

void CpuBackend::mark_ended(std::vector<bool>& ended) const {
    for (const std::unique_ptr<LaneThread>& lane : lanes_) {
        const std::uint64_t before = (steps_ - 1) * lane->ops.size();
        for (std::uint64_t k = 0; k < lane->ended.value() - before; ++k) ended[index(lane->ops[k]->op)] = true;
    }
}

std::vector<OpId> CpuBackend::begun() const {
    std::vector<OpId> ops;
    for (const std::unique_ptr<LaneThread>& lane : lanes_)
        if (lane->running) ops.push_back(lane->ops[lane->place - 1]->op);
    return ops;
}

std::uint64_t CpuBackend::ended_ops() const {
    std::uint64_t ended = 0;
    for (const std::unique_ptr<LaneThread>& lane : lanes_) ended += lane->ended.value();
    return ended;
}

}  // namespace sluice

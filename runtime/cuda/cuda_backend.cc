#include "runtime/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/disturbance.h"
#include "runtime/cuda/pinned_memory.h"
#include "runtime/kernel_clock.h"
#include "schedule/describe.h"
#include "traces/event_name.h"

namespace sluice::cuda {

CudaBackend::CudaBackend(const Schedule& schedule, const RankProgram& program, const RankArenas& arenas,
                         const DevicePart& device, IssueOp issue_op, StepTimes& times, const Disturbances& disturbances,
                         std::function<void()> begin_step)
    : schedule_(schedule),
      program_(program),
      arenas_(arenas),
      device_(device),
      issue_op_(std::move(issue_op)),
      times_(times),
      disturbances_(disturbances),
      begin_step_(std::move(begin_step)),
      events_of_(schedule.ops.size()),
      ranges_(program.ops.size(), [&](std::size_t i) { return event_name(schedule.ops[index(program.ops[i].op)]); }),
      marks_(Bytes{static_cast<std::int64_t>(program.lanes.size() * sizeof(std::uint64_t))}, "marks of lanes"),
      random_(static_cast<std::minstd_rand::result_type>(disturbances.delay_copies ? disturbances.delay_copies->seed + 1
                                                                                   : 1)) {
    prepare();
    if (!disturbances.poison_on_release) return;
    releases_.emplace(schedule, program.rank);
    users_.resize(releases_->blocks());
    last_users_.resize(releases_->blocks());
}

void CudaBackend::prepare() {
    for (std::size_t i = 0; i < program_.lanes.size(); ++i) {
        LaneState& lane = lanes_.emplace_back();
        lane.lane = program_.lanes[i];
        lane.stream = std::make_unique<OwnedStream>(device_.new_stream());
        lane.mark = marks_.as<std::uint64_t>() + i;
    }
    std::size_t count = 0, range = 0;
    for (const IssuedOp& op : program_.ops) {
        const Op& described = schedule_.ops[index(op.op)];
        const auto* compute = std::get_if<Compute>(&described.work);
        const std::size_t laps = compute == nullptr ? 1 : std::max<std::size_t>(1, compute->kernels.size());
        events_of_[index(op.op)] = {count, laps, range++};
        count += laps + 1;
        LaneState& lane = lanes_[op.at.lane];
        lane.ops.push_back(op.op);
        lane.copies.emplace_back();
        if (std::holds_alternative<Copy>(described.work)) lane.copies.back() = pieces_of(described);
    }
    events_ = std::make_unique<Events>(count);
    step_begin_ = std::make_unique<Events>(1);
}

// Cut where a registration of the host arena ends.
std::vector<CopyPiece> CudaBackend::pieces_of(const Op& op) const {
    const std::byte* const host = arenas_.arena(Space::kHost).data();
    const bool out = op.lane.kind == LaneKind::kCopyOut;
    constexpr auto kPiece = static_cast<std::size_t>(PinnedMemory::kPiece.value);
    std::vector<CopyPiece> pieces;
    for (CopyPiece piece : copy_pieces(op, arenas_))
        while (piece.bytes > 0) {
            const auto at = static_cast<std::size_t>((out ? piece.to : piece.from) - host);
            const std::size_t count = std::min(piece.bytes, kPiece - at % kPiece);
            pieces.push_back({piece.from, piece.to, count});
            piece.from += count, piece.to += count, piece.bytes -= count;
        }
    return pieces;
}

void CudaBackend::begin_step(std::uint64_t) {
    device_.make_current();
    if (releases_)
        for (std::uint32_t block = 0; block < users_.size(); ++block) {
            users_[block] = releases_->users(block);
            last_users_[block].clear();
        }
    for (LaneState& lane : lanes_) lane.issued = 0;
    ++steps_;
    host_begin_ = steady_now();
    record((*step_begin_)[0], lanes_.front().stream->get());
    if (begin_step_) begin_step_();
}

void CudaBackend::issue(const IssuedOp& op) {
    LaneState& lane = lanes_[op.at.lane];
    issuing_ = op.op;
    const Stream stream = lane.stream->get();
    const OpEvents& at = events_of_[index(op.op)];
    const NvtxRanges::Range range = ranges_.begin(at.range, index(op.op));
    for (const LaneEvent& wait : op.waits)
        wait_for(stream, (*events_)[events_of_[index(lanes_[wait.lane].ops[wait.place - 1])].end()]);
    record((*events_)[at.first], stream);
    const Op& described = schedule_.ops[index(op.op)];
    if (strikes(disturbances_.fault, steps_, op.op)) suffer(lane, described);
    if (std::holds_alternative<Copy>(described.work)) {
        copy(lane, op);
    } else {
        // The last lap is recorded here, behind what disturbs.
        StreamClock clock(stream, *events_, at.first + 1, at.laps - 1);
        issue_op_(described, clock);
        const auto* compute = std::get_if<Compute>(&described.work);
        const std::size_t kernels = compute == nullptr ? 0 : compute->kernels.size();
        if (clock.laps() != kernels)
            throw InternalError(
                fmt::format("{}: {} kernels were run, expected {}", describe(described), clock.laps(), kernels));
    }
    if (releases_) release_blocks(op);
    record((*events_)[at.end()], stream);
    ++lane.issued;
    issuing_ = kNoOp;
}

void CudaBackend::suffer(LaneState& lane, const Op& op) {
    if (disturbances_.fault->kind == Fault::Kind::kThrow)
        throw EnvironmentError(fmt::format("{}, {}: {}", describe(op), describe(op.tag), kFailsOnPurpose));
    mark_time(lane.stream->get(), lane.mark);
    hold_until(lane.stream->get(), lane.mark, UINT64_MAX);
}

void CudaBackend::hold(LaneState& lane, Seconds time) {
    hold_until(lane.stream->get(), lane.mark, static_cast<std::uint64_t>(time.value * 1e9));
}

void CudaBackend::copy(LaneState& lane, const IssuedOp& op) {
    const Stream stream = lane.stream->get();
    const auto delay = [&] {
        if (!disturbances_.delay_copies) return;
        mark_time(stream, lane.mark);
        hold(lane, disturbances_.delay_copies->most * std::uniform_real_distribution<double>(0, 1)(random_));
    };
    delay();
    if (lane.limit) mark_time(stream, lane.mark);
    std::size_t bytes = 0;
    for (const CopyPiece& piece : lane.copies[op.at.place - 1]) {
        bytes += piece.bytes;
        check(cudaMemcpyAsync(piece.to, piece.from, piece.bytes, cudaMemcpyDefault, stream), "copy");
    }
    if (lane.limit) hold(lane, Seconds{static_cast<double>(bytes) / lane.limit->value});
    delay();
}

// The last of a block's users, in the order of issue, waits for the others and fills it before its own end is an event:
// by rule 5 whoever uses the bytes next waits for all of them.
void CudaBackend::release_blocks(const IssuedOp& op) {
    const Stream stream = lanes_[op.at.lane].stream->get();
    for (const std::uint32_t block : releases_->of(op.at.lane, op.at.place)) {
        if (--users_[block] > 0) {
            last_users_[block].push_back(op.op);
            continue;
        }
        for (const OpId other : last_users_[block]) wait_for(stream, (*events_)[events_of_[index(other)].end()]);
        const BlockPlace& place = releases_->place(block);
        const std::span<std::byte> bytes = arenas_.span_of(place.buffer, place.block, place.block);
        fill_words(stream, bytes.first(bytes.size() / 4 * 4), kDevicePoison);
    }
}

void CudaBackend::finish_step() {
    for (const LaneState& lane : lanes_) lane.stream->wait();
    read_times();
}

void CudaBackend::read_times() {
    const Event begin = (*step_begin_)[0];
    const auto time_of = [&](std::size_t event) {
        return host_begin_ + std::max<std::int64_t>(0, nanoseconds_between(begin, (*events_)[event]));
    };
    for (const IssuedOp& op : program_.ops) {
        const OpEvents& at = events_of_[index(op.op)];
        times_.ops[index(op.op)] = {time_of(at.first), time_of(at.end())};
        const std::span<std::int64_t> laps = times_.laps_of(op.op);
        for (std::size_t k = 0; k < laps.size(); ++k) laps[k] = time_of(at.first + 1 + k);
    }
}

// An event that has not been recorded in this step still stands for the one before: `issued` says which have.
void CudaBackend::look() {
    device_.make_current();
    const std::uint64_t step = steps_;
    for (LaneState& lane : lanes_) {
        const std::size_t issued = lane.issued;
        if (step != looked_at_step_ || lane.looked > issued) lane.looked = 0;
        while (lane.looked < issued && happened((*events_)[events_of_[index(lane.ops[lane.looked])].end()]))
            ++lane.looked;
    }
    looked_at_step_ = step;
}

std::uint64_t CudaBackend::ended_ops() {
    look();
    std::uint64_t ended = (looked_at_step_ - (looked_at_step_ > 0 ? 1 : 0)) * program_.ops.size();
    for (const LaneState& lane : lanes_) ended += lane.looked;
    return ended;
}

std::string CudaBackend::in_flight() {
    look();
    std::vector<std::string> texts;
    const auto add = [&](OpId id, std::string_view how) {
        const Op& op = schedule_.ops[index(id)];
        texts.push_back(fmt::format("{}, {}{}", describe(op), describe(op.tag), how));
    };
    for (const LaneState& lane : lanes_) {
        if (lane.looked >= lane.issued) continue;
        const OpId op = lane.ops[lane.looked];
        add(op, happened((*events_)[events_of_[index(op)].first]) ? "" : ", waiting");
    }
    if (const OpId op = issuing_; op != kNoOp) add(op, ", being issued");
    return fmt::format("{}", fmt::join(texts, "; "));
}

void CudaBackend::limit_copies(LaneKind kind, std::optional<BytesPerSecond> limit) {
    for (LaneState& lane : lanes_)
        if (lane.lane.kind == kind) lane.limit = limit;
}

}  // namespace sluice::cuda

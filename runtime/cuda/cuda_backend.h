// The lanes of one rank as streams of a GPU, or of a part of one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/backend.h"
#include "runtime/block_releases.h"
#include "runtime/copy_pieces.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/device_part.h"
#include "runtime/cuda/nvtx_ranges.h"
#include "runtime/cuda/stream_clock.h"
#include "runtime/cuda/stream_events.h"
#include "runtime/fault.h"
#include "runtime/rank_arenas.h"
#include "runtime/rank_program.h"
#include "runtime/step_times.h"
#include "schedule/schedule.h"

namespace sluice::cuda {

// Disturbances, for tests and demonstrations, as of runtime/cpu/cpu_run.h. None by default.
struct Disturbances {
    bool poison_on_release = false;
    struct Delays {
        std::uint64_t seed = 0;
        Seconds most{200e-6};  // each copy is held up by up to this long before it begins and again before it ends
    };
    std::optional<Delays> delay_copies;
    std::optional<Fault> fault;  // kStall: the op's stream is held for ever, so that nothing that waits for it returns
};

// Every lane is a stream, every op ends with an event; an op first waits for the events of its `waits`. Nothing waits
// on the host before finish_step() but an op that talks to other ranks, whose transport may: then the rank's thread
// issues nothing else either, and its streams run out of work if its partners are much later. Times come from the
// events: an op begins when its stream has come to it and its waits are over.
class CudaBackend : public Backend {
public:
    // Refers to everything. `begin_step`, if not empty, is called at the begin of every step, on the rank's thread.
    CudaBackend(const Schedule& schedule, const RankProgram& program, const RankArenas& arenas,
                const DevicePart& device, IssueOp issue_op, StepTimes& times, const Disturbances& disturbances = {},
                std::function<void()> begin_step = {});

    void begin_step(std::uint64_t step) override;
    void issue(const IssuedOp& op) override;
    void finish_step() override;

    // Copies of the lane take at least bytes / limit from the next step on; none: as fast as they can.
    void limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit);

    // For a thread that watches, one at a time; makes the device its own. How many ops of all steps have ended, and
    // the ops that its lanes are at: "op 12 (rank 3, compute), forward stage 0 layer 2 sub 1", those that still wait
    // for others with ", waiting"; then the one that is being issued, where that takes long.
    std::uint64_t ended_ops();
    std::string in_flight();

private:
    // Events of an op: `first` when it begins, then the ends of its kernels, the last of them its own end.
    struct OpEvents {
        std::size_t first = 0, laps = 0;
        std::size_t range = 0;  // of ranges_
        std::size_t end() const { return first + laps; }
    };
    struct LaneState {
        Lane lane;
        std::unique_ptr<OwnedStream> stream;
        std::vector<OpId> ops;                       // in lane order
        std::vector<std::vector<CopyPiece>> copies;  // by place - 1; empty but for copies
        std::optional<BytesPerSecond> limit;
        std::uint64_t* mark = nullptr;  // on the device: when the copy in progress began
        std::atomic<std::size_t> issued{0};  // ops of this step whose events have been recorded
        std::size_t looked = 0;              // by who watches: of these, ended when it looked
    };

    void prepare();
    std::vector<CopyPiece> pieces_of(const Op& op) const;
    void suffer(LaneState& lane, const Op& op);
    void copy(LaneState& lane, const IssuedOp& op);
    void hold(LaneState& lane, Seconds time);
    void release_blocks(const IssuedOp& op);
    void read_times();
    void look();

    const Schedule& schedule_;
    const RankProgram& program_;
    const RankArenas& arenas_;
    const DevicePart& device_;
    const IssueOp issue_op_;
    StepTimes& times_;
    const Disturbances disturbances_;
    const std::function<void()> begin_step_;
    std::vector<OpEvents> events_of_;  // by op
    const NvtxRanges ranges_;          // by place in issue order: named as traces name ops, around the issue of each
    std::unique_ptr<Events> events_;
    std::unique_ptr<Events> step_begin_;         // one
    std::int64_t host_begin_ = 0;                // steady_now() when that was recorded
    std::optional<BlockReleases> releases_;      // with poison_on_release
    std::vector<std::uint32_t> users_;           // by block of releases_: lanes that still use it in this step
    std::vector<std::vector<OpId>> last_users_;  // by block: those that have released it
    DeviceMemory marks_;
    std::minstd_rand random_;
    std::deque<LaneState> lanes_;
    std::atomic<std::uint64_t> steps_{0};  // begun
    std::uint64_t looked_at_step_ = 0;     // by who watches
    std::atomic<OpId> issuing_{kNoOp};
};

}  // namespace sluice::cuda

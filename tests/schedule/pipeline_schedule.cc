#include "pipeline_schedule.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sluice {
namespace {

constexpr std::int64_t kTokens = 256;  // per subsequence; hidden size 1024

// Buffers of one stage, a block per subsequence.
struct StageBuffers {
    BufferId weights, grads, kv, dkv, saved, input, input_grad, output, output_grad;
};

class PipelineBuilder {
public:
    PipelineBuilder(std::uint32_t stages, std::uint32_t subsequences) : stages_(stages), subsequences_(subsequences) {
        schedule_.hosts.push_back(Host{64_GiB});
        for (std::uint32_t s = 0; s < stages; ++s) {
            schedule_.ranks.push_back(RankPlace{HostId{0}, 80_GiB});
            buffers_.push_back(stage_buffers(Rank{s}));
        }
    }

    // Ranks one after another; each lists its ops in the order in which it issues them.
    Schedule build() {
        for (std::uint32_t s = 0; s < stages_; ++s) {
            for (std::uint32_t i = 0; i < subsequences_; ++i) forward(s, i);
            for (std::uint32_t i = subsequences_; i-- > 0;) backward(s, i);
        }
        return std::move(schedule_);
    }

private:
    BufferId buffer(Rank rank, BufferKind kind, Bytes bytes, bool cut) {
        Buffer b;
        b.id = id_at<BufferId>(schedule_.buffers.size());
        b.rank = rank;
        b.kind = kind;
        b.persistent = kind == BufferKind::kWeights;
        b.bytes = cut ? bytes * std::int64_t{subsequences_} : bytes;
        if (cut) b.blocks.assign(subsequences_, bytes);
        schedule_.buffers.push_back(b);
        return b.id;
    }

    StageBuffers stage_buffers(Rank rank) {
        StageBuffers b{};
        b.weights = buffer(rank, BufferKind::kWeights, 24_MiB, false);
        b.grads = buffer(rank, BufferKind::kGrads, 48_MiB, false);
        b.kv = buffer(rank, BufferKind::kKv, 1_MiB, true);
        b.dkv = buffer(rank, BufferKind::kDkv, 2_MiB, true);
        b.saved = buffer(rank, BufferKind::kActivation, 7_MiB, true);
        b.input = buffer(rank, BufferKind::kComm, 512_KiB, true);
        b.input_grad = buffer(rank, BufferKind::kComm, 512_KiB, true);
        b.output = buffer(rank, BufferKind::kComm, 512_KiB, true);
        b.output_grad = buffer(rank, BufferKind::kComm, 512_KiB, true);
        return b;
    }

    OpId add(std::uint32_t stage, Lane lane, Work work, std::optional<OpId> after, std::vector<Access> accesses,
             Tag tag) {
        Op op;
        op.id = id_at<OpId>(schedule_.ops.size());
        op.rank = Rank{stage};
        op.lane = lane;
        op.work = std::move(work);
        if (after) op.after.push_back(*after);
        op.accesses = std::move(accesses);
        op.tag = tag;
        schedule_.ops.push_back(std::move(op));
        return schedule_.ops.back().id;
    }

    static Access block(BufferId b, std::uint32_t i, AccessMode mode) { return Access{b, i, i, mode}; }

    Work attention(Pass pass, std::uint32_t i) const {
        return Compute{{Kernel{Gemm{kTokens, 12288, 1024}, pass == Pass::kForward ? 1U : 2U},
                        Kernel{Attention{pass, true, kTokens, kTokens * (i + 1), 8, 8, 128}, 1}}};
    }

    static Tag tag(Phase phase, std::uint32_t stage, std::uint32_t i) {
        Tag t;
        t.phase = phase;
        t.stage = static_cast<std::int32_t>(stage);
        t.subsequence = static_cast<std::int32_t>(i);
        return t;
    }

    // A send from one stage's buffer, or the receive of one.
    OpId transfer(std::uint32_t stage, std::uint32_t peer, bool sends, std::optional<OpId> after, Access access,
                  Tag t) {
        const Lane lane{sends ? LaneKind::kSend : LaneKind::kReceive, Rank{peer}};
        return add(stage, lane, sends ? Work{Send{512_KiB}} : Work{Receive{512_KiB}}, after, {access}, t);
    }

    void forward(std::uint32_t s, std::uint32_t i) {
        const StageBuffers& b = buffers_[s];
        const Tag t = tag(Phase::kForward, s, i);
        std::optional<OpId> arrived;
        std::vector<Access> uses{{b.weights, 0, 0, AccessMode::kRead}};
        if (s > 0) {
            arrived = transfer(s, s - 1, false, {}, block(b.input, i, AccessMode::kWrite), t);
            uses.push_back(block(b.input, i, AccessMode::kRead));
        }
        if (i > 0) uses.push_back(Access{b.kv, 0, i - 1, AccessMode::kRead});
        uses.push_back(block(b.kv, i, AccessMode::kWrite));
        uses.push_back(block(b.saved, i, AccessMode::kWrite));
        if (s + 1 < stages_) uses.push_back(block(b.output, i, AccessMode::kWrite));
        const OpId computed = add(s, Lane{}, attention(Pass::kForward, i), arrived, std::move(uses), t);
        if (s + 1 < stages_) transfer(s, s + 1, true, computed, block(b.output, i, AccessMode::kRead), t);
    }

    void backward(std::uint32_t s, std::uint32_t i) {
        const StageBuffers& b = buffers_[s];
        const Tag t = tag(Phase::kBackward, s, i);
        const bool first = i + 1 == subsequences_;
        const AccessMode sum = first ? AccessMode::kWrite : AccessMode::kAccumulate;
        std::optional<OpId> arrived;
        std::vector<Access> uses{{b.weights, 0, 0, AccessMode::kRead},
                                 {b.kv, 0, i, AccessMode::kRead},
                                 block(b.saved, i, AccessMode::kRead)};
        if (s + 1 < stages_) {
            arrived = transfer(s, s + 1, false, {}, block(b.output_grad, i, AccessMode::kWrite), t);
            uses.push_back(block(b.output_grad, i, AccessMode::kRead));
        }
        uses.push_back(Access{b.dkv, 0, i, sum});
        uses.push_back(Access{b.grads, 0, 0, sum});
        if (s > 0) uses.push_back(block(b.input_grad, i, AccessMode::kWrite));
        const OpId computed = add(s, Lane{}, attention(Pass::kBackward, i), arrived, std::move(uses), t);
        if (s > 0) transfer(s, s - 1, true, computed, block(b.input_grad, i, AccessMode::kRead), t);
    }

    std::uint32_t stages_, subsequences_;
    std::vector<StageBuffers> buffers_;
    Schedule schedule_;
};

}  // namespace

Schedule pipeline_schedule(std::uint32_t stages, std::uint32_t subsequences) {
    return PipelineBuilder(stages, subsequences).build();
}

}  // namespace sluice

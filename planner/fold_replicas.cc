// What data-parallel replicas exchange, by ZeRO stage (docs/memory.md), and the optimizer step.
#include <utility>

#include "base/error.h"
#include "models/rank_memory.h"
#include "planner/stage_emitter.h"

namespace sluice {

OpId StageEmitter::exchange(Function function, CollectiveKind kind, GroupId group, Bytes bytes, std::uint32_t calls,
                            std::vector<OpId> after, std::vector<Access> accesses) {
    return emit(function, {LaneKind::kCollective, kNoRank}, Collective{kind, group, bytes, calls, 0}, std::move(after),
                std::move(accesses));
}

// ---- ZeRO 3: weights are gathered part by part, one part ahead

std::optional<std::size_t> StageEmitter::part_after(std::size_t part, std::size_t i) const {
    const std::size_t rows = rows_.size(), entry = first() ? embedding_part() : 0;
    if (tag_.phase == Phase::kBackward) {
        if (part > 0) return part - 1;
        if (i > 0) return rows - 1;
        return tag_.sequence + 1 < scenario_.sequences_of_replica() ? std::optional(entry) : std::nullopt;
    }
    if (part == embedding_part()) return 0;
    if (part + 1 < rows) return part + 1;
    if (part + 1 == rows && last()) return head_part();
    return i + 1 < subsequences_.size() ? entry : rows - 1;
}

bool StageEmitter::part_ends(std::size_t i) const {
    return !layer_major() || i == (tag_.phase == Phase::kBackward ? 0 : subsequences_.size() - 1);
}

StageEmitter::Gathered StageEmitter::gather_weights(std::size_t part) {
    const Part& p = parts_[part];
    const Bytes bytes = weight_bytes(scenario_, p.weights);
    const BufferId buffer = add_buffer(BufferKind::kComm, bytes);
    const OpId op = exchange(Function::kNone, CollectiveKind::kAllGather, groups_.data_parallel[stage_], bytes, p.calls,
                             {}, {read(own_weights_), write(buffer)});
    return {part, buffer, op};
}

void StageEmitter::use_weights(std::size_t part, std::size_t i) {
    if (!scenario_.shares(ZeroStage::kParameters)) return;
    if (layer_major()) {
        if (gathered_part_ == part) return;  // for all subsequences
        i = tag_.phase == Phase::kBackward ? 0 : subsequences_.size() - 1;
    }
    gathered_part_ = part;
    SLUICE_CHECK(!ahead_ || ahead_->part == part, "weights are gathered in the order of their use");
    const Gathered gathered = ahead_ ? *ahead_ : gather_weights(part);
    ahead_.reset();
    weights_ = gathered.buffer;
    weights_by_ = gathered.made_by;
    gather_next_ = part_after(part, i);
}

// ---- ZeRO 2 and 3: gradients are reduced after every subsequence

Access StageEmitter::transient_gradient(std::size_t part) {
    Part& p = parts_[part];
    if (p.transient != kNoBuffer) return {p.transient, 0, 0, AccessMode::kAccumulate};
    p.transient = add_buffer(BufferKind::kComm, transient_gradient_bytes(p));
    return write(p.transient);
}

// One subsequence's in the type that its kernels write; layer-major, where all subsequences accumulate, in the
// accumulators'.
Bytes StageEmitter::transient_gradient_bytes(const Part& p) const {
    return layer_major() ? gradient_bytes(scenario_, p.gradients) : weight_bytes(scenario_, p.gradients);
}

void StageEmitter::reduce_gradients(std::size_t part, std::size_t i) {
    if (!reduces_at_once() || !part_ends(i)) return;
    reductions_.push_back({part, std::exchange(parts_[part].transient, kNoBuffer), last_compute_, tag_});
}

// Where a part's gradients are accumulated, here by reductions.
Access StageEmitter::accumulator(std::size_t part) {
    Part& p = parts_[part];
    return {p.accumulator, 0, 0, std::exchange(p.begun, true) ? AccessMode::kAccumulate : AccessMode::kWrite};
}

void StageEmitter::list_reductions() {
    const Tag current = tag_;
    for (const Reduction& r : std::exchange(reductions_, {})) {
        tag_ = r.tag;
        const Part& p = parts_[r.part];
        last_reduction_ =
            exchange(Function::kGradients, CollectiveKind::kReduceScatter, groups_.data_parallel[stage_],
                     transient_gradient_bytes(p), p.calls, {r.made_by}, {read(r.transient), accumulator(r.part)});
    }
    tag_ = current;
}

void StageEmitter::beside_compute() {
    list_reductions();
    if (gather_next_) ahead_ = gather_weights(*std::exchange(gather_next_, std::nullopt));
}

// ---- The end of the step

// ZeRO 0 and 1: gradients are whole until here.
OpId StageEmitter::reduce_over_replicas(OpId ready, const std::vector<Access>& gradients) {
    if (scenario_.policy.dp == 1) return ready;
    if (reduces_at_once()) return last_reduction_;
    const bool scatter = scenario_.shares(ZeroStage::kOptimizer);
    return exchange(Function::kGradients, scatter ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
                    groups_.data_parallel[stage_], gradient_bytes(scenario_, parameters_), 1, {ready}, gradients);
}

// Gradients of parameters that several ranks of a replica hold: of those, what the rank steps. `gradients`: all of the
// stage.
OpId StageEmitter::reduce_over_shards(OpId ready, const std::vector<Access>& gradients) {
    if (shards())
        ready = exchange(Function::kReplicated, CollectiveKind::kAllReduce, groups_.sequence_parallel[stage_],
                         gradient_bytes(scenario_, replicated_), 1, {ready}, gradients);
    if (scenario_.model.tied_embeddings && scenario_.policy.pp > 1 && (first() || last())) {
        const std::size_t end = first() ? embedding_part() : head_part();
        const Access ends{parts_[end].accumulator, 0, 0, AccessMode::kAccumulate};
        const std::int64_t table = held_parameters(scenario_, ZeroStage::kOptimizer, table_parameters(scenario_));
        ready = exchange(Function::kTiedTable, CollectiveKind::kAllReduce, groups_.tied_ends,
                         gradient_bytes(scenario_, table), 1, {ready}, {ends});
    }
    return ready;
}

void StageEmitter::optimizer() {
    tag_ = Tag{Phase::kOptimizer, 0, static_cast<std::int32_t>(stage_), -1, -1, -1, -1};
    std::vector<Access> gradients;
    for (const Part& part : parts_)
        if (part.accumulator != kNoBuffer) gradients.push_back({part.accumulator, 0, 0, AccessMode::kAccumulate});
    list_reductions();
    OpId ready = reduce_over_shards(reduce_over_replicas(last_compute_, gradients), gradients);

    for (Access& access : gradients) access.mode = AccessMode::kRead;
    const BufferId norm = add_buffer(BufferKind::kComm, 8_B);
    ready =
        compute(Function::kGradientNorm, gradient_norm(scenario_, stepped_), {ready}, join(gradients, {write(norm)}));
    const bool shared = scenario_.shares(ZeroStage::kOptimizer);
    if ((shared ? scenario_.ranks() : scenario_.policy.pp * scenario_.policy.sp) > 1)
        ready = exchange(Function::kGradientNorm, CollectiveKind::kAllReduce, groups_.everyone, 8_B, 1, {ready},
                         {{norm, 0, 0, AccessMode::kAccumulate}});
    const Access weights{own_weights_, 0, 0, AccessMode::kAccumulate};
    const OpId stepped = compute(Function::kAdamw, adamw(scenario_, stepped_), {ready},
                                 join(gradients, {read(norm), weights, {optimizer_, 0, 0, AccessMode::kAccumulate}}));
    if (shared && !scenario_.shares(ZeroStage::kParameters))
        exchange(Function::kAdamw, CollectiveKind::kAllGather, groups_.data_parallel[stage_],
                 weight_bytes(scenario_, parameters_), 1, {stepped}, {weights});
}

}  // namespace sluice

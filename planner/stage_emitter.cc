#include "planner/stage_emitter.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "models/rank_memory.h"

namespace sluice {

std::vector<Access> join(std::vector<Access> accesses, const std::vector<Access>& more) {
    accesses.insert(accesses.end(), more.begin(), more.end());
    return accesses;
}

void append(KernelChain& chain, const KernelChain& more, std::uint32_t times) {
    for (Kernel kernel : more) {
        kernel.count *= times;
        chain.push_back(kernel);
    }
}

KernelChain repeated(std::initializer_list<const KernelChain*> parts, std::uint32_t times) {
    std::size_t kernels = 0;
    for (const KernelChain* part : parts) kernels += part->size();
    KernelChain chain;
    chain.reserve(kernels);
    for (const KernelChain* part : parts) append(chain, *part, times);
    return chain;
}

StageEmitter::StageEmitter(const Scenario& scenario, const std::vector<Subsequence>& subsequences,
                           const std::vector<StagePlan>& plans, const FoldedGroups& groups, std::size_t stage,
                           FoldedStep& out)
    : scenario_(scenario),
      subsequences_(subsequences),
      plan_(plans[stage]),
      groups_(groups),
      stage_(stage),
      out_(out),
      rank_(id_at<Rank>(stage)) {
    const auto layers = static_cast<std::uint32_t>(plan_.layers);
    const bool by_layer = scenario.policy.granularity == Granularity::kLayer;
    for (std::uint32_t l = 0; l < (by_layer ? layers : 1U); ++l) {
        Row row;
        row.layer = by_layer ? static_cast<std::int32_t>(plan_.first_layer + l) : -1;
        row.layers = by_layer ? 1 : layers;
        row.part = l;
        row.streams_kv = by_layer && layers > 1 && static_cast<std::int64_t>(l) < plan_.kv_offloaded;
        rows_.push_back(row);
    }

    add_parameters();
}

// Parameters, their states and gradients, by what is shared out at once: layers, embedding, head.
void StageEmitter::add_parameters() {
    const Scenario& s = scenario_;
    const ParameterRuns layer = layer_runs(s);
    const ParameterRuns embedding = first() ? embedding_runs(s) : ParameterRuns{};
    const ParameterRuns head = last() ? head_runs(s) : ParameterRuns{};
    const auto sum = [&](const auto& of_runs) {
        const Parameters l = of_runs(layer), e = of_runs(embedding), h = of_runs(head);
        return Parameters{l.sharded * plan_.layers + e.sharded + h.sharded,
                          l.replicated * plan_.layers + e.replicated + h.replicated};
    };
    const auto held = [&](ZeroStage stage) {
        return sum([&](const ParameterRuns& runs) { return held_parameters(s, stage, runs); });
    };
    parameters_ = sum(all_parameters).total();
    const Parameters stepped = held(ZeroStage::kOptimizer);
    stepped_ = stepped.total(), replicated_ = stepped.replicated;
    weights_ = own_weights_ =
        add_buffer(BufferKind::kWeights, weight_bytes(s, held(ZeroStage::kParameters).total()), true);
    optimizer_ = add_buffer(BufferKind::kOptimizer, optimizer_bytes(s, stepped_), true);

    const auto add_part = [&](const ParameterRuns& runs, std::uint32_t calls) {
        Part& part = parts_.emplace_back();
        part.weights = part.gradients = all_parameters(runs).total(), part.calls = calls;
        const std::int64_t held_gradients = held_parameters(s, ZeroStage::kGradients, runs).total();
        const Bytes bytes = gradient_bytes(s, held_gradients) * calls;
        if (bytes.value > 0) part.accumulator = add_buffer(BufferKind::kGrads, bytes);
    };
    for (const Row& row : rows_) add_part(layer, row.layers);
    add_part(embedding, 1);
    add_part(head, 1);
    if (s.model.tied_embeddings && s.policy.pp == 1) parts_.back().weights += table_parameters(s);
}

BufferId StageEmitter::add_buffer(BufferKind kind, Bytes bytes, bool persistent, std::vector<Bytes> blocks) {
    Buffer buffer;
    buffer.id = id_at<BufferId>(out_.schedule.buffers.size());
    buffer.rank = rank_;
    buffer.kind = kind;
    buffer.persistent = persistent;
    buffer.bytes = bytes;
    if (blocks.size() > 1) buffer.blocks = std::move(blocks);
    out_.schedule.buffers.push_back(std::move(buffer));
    return out_.schedule.buffers.back().id;
}

// Of a row and subsequence i. Which tensors it holds is said where one op is one part of one layer.
BufferId StageEmitter::add_activation(Bytes bytes, std::size_t i, const Row& row, UnitPart part) {
    const BufferId id = add_buffer(BufferKind::kActivation, bytes);
    if (row.layer >= 0) out_.schedule.buffers.back().tensors = saved_tensors(scenario_, subsequences_[i], part);
    return id;
}

OpId StageEmitter::emit(Function function, Lane lane, Work work, std::vector<OpId> after,
                        std::vector<Access> accesses) {
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    Op op{id_at<OpId>(out_.schedule.ops.size()),
          rank_,
          lane,
          std::move(work),
          std::move(after),
          std::move(accesses),
          tag_};
    op.tag.function = function;
    out_.schedule.ops.push_back(std::move(op));
    return last_op_ = out_.schedule.ops.back().id;
}

OpId StageEmitter::compute(Function function, KernelChain kernels, std::vector<OpId> after,
                           std::vector<Access> accesses) {
    if (weights_by_ != kNoOp && std::ranges::find(accesses, weights_, &Access::buffer) != accesses.end())
        after.push_back(std::exchange(weights_by_, kNoOp));  // later readers follow on this lane
    return last_compute_ = emit(function, {LaneKind::kCompute, kNoRank}, Compute{std::move(kernels)}, std::move(after),
                                std::move(accesses));
}

Value StageEmitter::all_gather(Function function, const Value& value, BufferId comm, std::uint32_t block, Bytes bytes,
                               std::uint32_t calls) {
    if (!scenario_.splits_weights()) return value;
    std::vector<Access> accesses = value.reads;
    accesses.push_back({comm, block, block, AccessMode::kWrite});
    const Collective work{CollectiveKind::kAllGather, groups_.sequence_parallel[stage_], bytes, calls, 0};
    const OpId op = emit(function, {LaneKind::kCollective, kNoRank}, work, value.made_by, std::move(accesses));
    return {{op}, {{comm, block, block, AccessMode::kRead}}};
}

Value StageEmitter::gather_normed(Function norm, std::vector<OpId> after, const Saved& saved, BufferId comm,
                                  std::uint32_t block, Bytes bytes) {
    if (!scenario_.saves_gathered())
        return all_gather(norm, {std::move(after), {read(saved.norms())}}, comm, block, bytes);
    const Collective work{CollectiveKind::kAllGather, groups_.sequence_parallel[stage_], bytes, 1, 0};
    const OpId op = emit(norm, {LaneKind::kCollective, kNoRank}, work, std::move(after),
                         {{saved.norms(), 0, 0, AccessMode::kAccumulate}});
    return {{op}, {read(saved.norms())}};
}

Access StageEmitter::partial_sums(BufferId comm, std::uint32_t block, Access target) const {
    return scenario_.splits_weights() ? Access{comm, block, block, AccessMode::kWrite} : target;
}

OpId StageEmitter::reduce_scatter(Function function, OpId producer, BufferId comm, std::uint32_t block, Access target,
                                  Bytes bytes, std::uint32_t calls) {
    if (!scenario_.splits_weights()) return producer;
    const Collective work{CollectiveKind::kReduceScatter, groups_.sequence_parallel[stage_], bytes, calls, 0};
    return emit(function, {LaneKind::kCollective, kNoRank}, work, {producer},
                {{comm, block, block, AccessMode::kRead}, target});
}

OpId StageEmitter::receive(Rank from, BufferId into, Bytes bytes) {
    return emit(Function::kNone, {LaneKind::kReceive, from}, Receive{bytes}, {}, {{into, 0, 0, AccessMode::kWrite}});
}

OpId StageEmitter::send(Rank to, OpId producer, BufferId from, Bytes bytes) {
    return emit(Function::kNone, {LaneKind::kSend, to}, Send{bytes}, {producer}, {{from, 0, 0, AccessMode::kRead}});
}

Access StageEmitter::gradient_access(std::size_t part) {
    return reduces_at_once() ? transient_gradient(part) : accumulator(part);
}

std::vector<Access> StageEmitter::Saved::temporaries(AccessMode mode) const {
    std::vector<Access> accesses;
    for (const BufferId buffer : {cheap, transient})
        if (buffer != kNoBuffer) accesses.push_back({buffer, 0, 0, mode});
    return accesses;
}

std::vector<Access> StageEmitter::Saved::all(AccessMode mode) const {
    return join({{unit, 0, 0, mode}}, temporaries(mode));
}

std::vector<Access> StageEmitter::Saved::for_mlp_backward() const {
    std::vector<Access> accesses = all(AccessMode::kRead);
    if (transient != kNoBuffer) accesses.push_back(write(transient));
    return accesses;
}

// The lowest layers of a stage: they are made first and needed last, so what they do not keep is free for longest.
std::uint32_t StageEmitter::recomputed_layers(const Row& row, std::size_t i) const {
    if (plan_.recomputed.empty()) return 0;
    const auto of_slot = static_cast<std::uint32_t>(plan_.recomputed[slot(i, row)]);
    return row.layer < 0 || layer_major() ? of_slot : (row.part < of_slot ? 1U : 0U);
}

Unit& StageEmitter::unit_at(std::size_t i, const Row& row) {
    const auto r = static_cast<std::size_t>(&row - rows_.data());
    return out_.units[unit_of_[i * rows_.size() + r]];
}

StageEmitter::Saved StageEmitter::saved(std::size_t i, const Row& row, Phase phase) {
    Saved saved;
    saved.unit = row.units[i], saved.recomputed = recomputed_layers(row, i);
    if (scenario_.policy.inventory == Inventory::kLean)
        saved.transient = add_activation(transient_bytes(scenario_, subsequences_[i]), i, row, UnitPart::kTransient);
    if (saved.recomputed == 0) return saved;
    saved.whole_layers = scenario_.recomputes_layers();
    saved.cheap = add_activation(cheap_bytes(scenario_, subsequences_[i]), i, row, UnitPart::kCheap);
    Unit& unit = unit_at(i, row);
    (phase == Phase::kForward ? unit.dropped : unit.remade) = saved.cheap;
    return saved;
}

void StageEmitter::begin_sequence(std::int32_t sequence) {
    tag_ = Tag{Phase::kForward, sequence, static_cast<std::int32_t>(stage_), -1, -1, -1, -1};
    const std::size_t n = subsequences_.size();
    inputs_.assign(n, kNoBuffer), outputs_.assign(n, kNoBuffer), loss_gradients_.assign(n, kNoBuffer);
    received_.assign(n, kNoOp), produced_.assign(n, kNoOp), loss_gradient_by_.assign(n, kNoOp);
    unit_of_.assign(n * rows_.size(), 0);
    for (Row& row : rows_) {
        row.units.clear(), row.kv_blocks.clear(), row.dkv_blocks.clear();
        for (const Subsequence& sub : subsequences_) {
            row.kv_blocks.push_back(kv_bytes(scenario_, sub) * row.layers);
            row.dkv_blocks.push_back(kv_gradient_bytes(scenario_, sub) * row.layers);
        }
        if (!row.streams_kv) {
            row.kv = add_blocks(BufferKind::kKv, row.kv_blocks, Space::kDevice);
            row.dkv = add_blocks(BufferKind::kDkv, row.dkv_blocks, Space::kDevice);
            continue;
        }
        row.kv_host = add_blocks(BufferKind::kStaging, row.kv_blocks, Space::kHost);
        if (!layer_major() && n > 1) row.dkv_host = add_blocks(BufferKind::kStaging, row.dkv_blocks, Space::kHost);
    }
    const auto add = [&](std::size_t i, Row& row) {
        const Bytes kept = unit_bytes(scenario_, subsequences_[i]) * row.layers -
                           cheap_bytes(scenario_, subsequences_[i]) * recomputed_layers(row, i);
        const UnitPart part = recomputed_layers(row, i) > 0 ? UnitPart::kRest : UnitPart::kWhole;
        row.units.push_back(add_activation(kept, i, row, part));
        unit_of_[i * rows_.size() + static_cast<std::size_t>(&row - rows_.data())] = out_.units.size();
        Unit unit;
        unit.stage = stage_, unit.sequence = sequence, unit.subsequence = i, unit.slot = slot(i, row);
        unit.layer = row.layer, unit.buffer = row.units.back();
        unit.offload_after = unit.reload_before = kNoOp;
        out_.units.push_back(unit);
    };
    if (layer_major()) {
        for (Row& row : rows_)
            for (std::size_t i = 0; i < n; ++i) add(i, row);
    } else {
        for (std::size_t i = 0; i < n; ++i)
            for (Row& row : rows_) add(i, row);
    }
}

StageEmitter::Scratch StageEmitter::scratch(std::size_t i, Phase phase, bool holds_loss) {
    const Subsequence sub = subsequences_[i];
    const Bytes gathered = gathered_bytes(scenario_, sub), shard = boundary_bytes(scenario_, sub);
    const bool forward = phase == Phase::kForward;
    Scratch scratch;
    if (scenario_.ulysses())
        scratch.exchange = add_blocks(BufferKind::kComm, exchange_blocks(scenario_, sub, phase), Space::kDevice);
    else if (shards())
        scratch.comm = add_blocks(BufferKind::kComm, std::vector<Bytes>(forward ? 2 : 3, gathered), Space::kDevice);
    scratch.stream = add_buffer(BufferKind::kStaging, shard * 2, false, {shard, shard});
    Bytes workspace = forward ? forward_workspace(scenario_, sub) : backward_workspace(scenario_, sub);
    if (!forward && scenario_.recomputes_layers()) workspace = std::max(workspace, forward_workspace(scenario_, sub));
    if (holds_loss) workspace = std::max(workspace, loss_workspace(scenario_, sub));
    scratch.workspace = add_buffer(BufferKind::kWorkspace, std::max(workspace, 1_B));
    return scratch;
}

// The unit that forward makes just before this one and backward needs just after it: of the subsequence before, in
// layer-major order for the first subsequence the last one of the layer below.
Unit* StageEmitter::unit_before(std::size_t i, const Row& row) {
    if (i > 0) return &unit_at(i - 1, row);
    const bool lowest = &row == &rows_.front();
    return layer_major() && !lowest ? &unit_at(subsequences_.size() - 1, *(&row - 1)) : nullptr;
}

// Notes where the copies of the row's units belong in issue order. A unit leaves behind the forward of the next one and
// comes back before its backward; the last one has no such window: out when forward ends, back when backward begins.
void StageEmitter::mark_row(std::size_t i, const Row& row, Phase phase, OpId first_op, OpId last_op) {
    Unit* before = unit_before(i, row);
    if (phase == Phase::kForward) {
        if (before != nullptr) before->offload_after = last_op;
        return;
    }
    if (before != nullptr) before->reload_before = first_op;
    Unit& own = unit_at(i, row);
    if (own.reload_before == kNoOp) own.reload_before = first_op;
}

}  // namespace sluice

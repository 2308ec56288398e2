// What backward makes again before it begins: the dropped part of recomputed layers, and with inventory lean the norms
// of all layers. None of it waits for the gradient.
#include <utility>

#include "planner/stage_emitter.h"

namespace sluice {

OpId StageEmitter::recompute(Function function, KernelChain kernels, std::vector<OpId> after,
                             std::vector<Access> accesses) {
    tag_.phase = Phase::kRecompute;
    const OpId op = compute(function, std::move(kernels), std::move(after), std::move(accesses));
    tag_.phase = Phase::kBackward;
    return op;
}

Value StageEmitter::gather_again(Function norm, std::vector<OpId> after, const Saved& saved, const Scratch& t,
                                 Bytes bytes) {
    if (scenario_.saves_gathered() && !saved.remakes()) return {{}, {read(saved.norms())}};
    return gather_normed(norm, std::move(after), saved, t.comm, 1, bytes);
}

// A whole layer's second norm stands behind attention; all layers at once count their kernels here.
OpId StageEmitter::remake_norms(std::size_t i, const Row& row, const Saved& saved) {
    const LayerRecompute again = layer_recompute(scenario_, subsequences_[i]);
    const bool by_layer = row.layer >= 0, first_alone = by_layer && saved.whole_layers;
    const bool lean = saved.transient != kNoBuffer;
    const KernelChain norms = first_alone ? KernelChain{again.norms.front()} : again.norms;
    const Function function = first_alone ? Function::kNorm1 : by_layer ? Function::kNorms : Function::kNone;
    return recompute(function, repeated({&norms}, lean ? row.layers : saved.recomputed), {},
                     {read(weights_), read(saved.unit), write(saved.norms())});
}

OpId StageEmitter::remake_norm2(std::size_t i, const Row& row, const Saved& saved, std::vector<OpId> sums,
                                const Scratch& t) {
    const LayerRecompute again = layer_recompute(scenario_, subsequences_[i]);
    KernelChain chain = repeated({&again.residual}, saved.recomputed);
    if (row.layer >= 0) chain.push_back(again.norms.back());
    return recompute(
        row.layer >= 0 ? Function::kNorm2 : Function::kNone, std::move(chain), std::move(sums),
        join({read(weights_), read(saved.unit), read(t.stream, 1, 1)}, saved.temporaries(AccessMode::kWrite)));
}

Value StageEmitter::remake_layer(std::size_t i, const Row& row, const Saved& saved, const Scratch& t,
                                 std::vector<OpId> block_is_free) {
    const Bytes bytes = gathered_bytes(scenario_, subsequences_[i]);
    block_is_free.push_back(remake_norms(i, row, saved));
    Value x = saved.whole_layers ? remake_checkpoints(i, row, saved, t, std::move(block_is_free))
                                 : gather_again(Function::kNorm2, std::move(block_is_free), saved, t, bytes);
    if (saved.recomputed > 0)
        recompute(Function::kMlp, layer_recompute(scenario_, subsequences_[i]).mlp, x.made_by,
                  join({read(weights_), write(saved.cheap), write(t.workspace)}, x.reads));
    return x;
}

// Forward's ops but for K and V, which are there. The block of reduced gradients is free until the MLP's is.
Value StageEmitter::remake_checkpoints(std::size_t i, const Row& row, const Saved& saved, const Scratch& t,
                                       std::vector<OpId> block_is_free) {
    const Bytes bytes = gathered_bytes(scenario_, subsequences_[i]);
    const LayerRecompute again = layer_recompute(scenario_, subsequences_[i]);
    const Access sums = write(t.stream, 1, 1);
    const Value x = gather_again(Function::kNorm1, std::move(block_is_free), saved, t, bytes);
    std::vector<OpId> after = x.made_by;
    after.insert(after.end(), row.kv_ready.begin(), row.kv_ready.end());
    const OpId attention =
        recompute(Function::kAttention, repeated({&again.query, &again.attention}, 1), std::move(after),
                  join({read(weights_), read(row.kv, 0, static_cast<std::uint32_t>(i)), write(saved.cheap),
                        write(t.workspace), partial_sums(t.comm, 2, sums)},
                       x.reads));
    tag_.phase = Phase::kRecompute;
    const OpId reduced = reduce_scatter(Function::kAttention, attention, t.comm, 2, sums, bytes);
    tag_.phase = Phase::kBackward;
    const OpId norm2 = remake_norm2(i, row, saved, {reduced}, t);
    return gather_again(Function::kNorm2, {norm2}, saved, t, bytes);
}

// One gather for both inputs of all layers, and once more for the first input of those that are remade whole.
Value StageEmitter::remake_stage(std::size_t i, const Row& row, const Saved& saved, const Scratch& t) {
    const Bytes bytes = gathered_bytes(scenario_, subsequences_[i]);
    const LayerRecompute again = layer_recompute(scenario_, subsequences_[i]);
    const OpId made = remake_norms(i, row, saved);
    const std::uint32_t whole = saved.whole_layers ? saved.recomputed : 0;
    const Value x = all_gather(Function::kNone, {{made}, {read(saved.norms())}}, t.comm, 1, bytes,
                               2 * row.layers + (scenario_.saves_gathered() ? 0 : whole));
    if (saved.recomputed == 0) return x;
    std::vector<Access> accesses =
        join(join({read(weights_)}, saved.temporaries(AccessMode::kWrite)), join({write(t.workspace)}, x.reads));
    const Access sums = write(t.stream, 1, 1);
    if (whole > 0)
        accesses = join(std::move(accesses), {read(saved.unit), read(row.kv, 0, static_cast<std::uint32_t>(i)),
                                              partial_sums(t.comm, 2, sums)});
    const OpId op = recompute(
        Function::kNone,
        repeated({&again.mlp, &again.query, &again.attention, &again.projection, &again.residual}, saved.recomputed),
        x.made_by, std::move(accesses));
    if (whole == 0) return x;
    tag_.phase = Phase::kRecompute;
    reduce_scatter(Function::kNone, op, t.comm, 2, sums, bytes, whole);
    tag_.phase = Phase::kBackward;
    return x;
}

}  // namespace sluice

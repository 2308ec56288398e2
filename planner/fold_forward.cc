// The forward pass of a folded rank. Order of one layer: models/layer_kernels.h.

#include "models/rank_memory.h"
#include "planner/stage_emitter.h"

namespace sluice {

void StageEmitter::forward(std::int32_t sequence) {
    begin_sequence(sequence);
    if (layer_major()) return forward_by_layer();
    const std::size_t n = subsequences_.size();
    const auto receive_input = [&](std::size_t i) {
        if (first() || i >= n) return;
        tag_.subsequence = static_cast<std::int32_t>(i), tag_.layer = -1;
        const Bytes bytes = boundary_bytes(scenario_, subsequences_[i]);
        inputs_[i] = add_buffer(BufferKind::kStaging, bytes);
        received_[i] = receive(previous(), inputs_[i], bytes);
    };
    const auto send_output = [&](std::size_t i) {
        if (last()) return;
        tag_.subsequence = static_cast<std::int32_t>(i), tag_.layer = -1;
        send(next(), produced_[i], outputs_[i], boundary_bytes(scenario_, subsequences_[i]));
    };
    receive_input(0);
    for (std::size_t i = 0; i < n; ++i) {
        receive_input(i + 1);
        tag_.subsequence = static_cast<std::int32_t>(i);
        forward_subsequence(i);
        if (i > 0) send_output(i - 1);
    }
    send_output(n - 1);
    for (const Row& row : rows_) unit_at(n - 1, row).offload_after = last_op_;
}

// What the stage starts from: the shard received, or the embedding of the rank's tokens.
Value StageEmitter::stage_input(std::size_t i, Scratch& scratch) {
    if (!first()) return {{received_[i]}, {read(inputs_[i])}};
    use_weights(embedding_part(), i);
    const Access target = write(scratch.stream);
    const OpId lookup = compute(Function::kEmbedding, embedding_forward(scenario_, subsequences_[i]), {},
                                {read(weights_), partial_sums(scratch.comm, 1, target)});
    beside_compute();
    const OpId reduced = reduce_scatter(Function::kEmbedding, lookup, scratch.comm, 1, target,
                                        gathered_bytes(scenario_, subsequences_[i]));
    return {{reduced}, {read(scratch.stream)}};
}

void StageEmitter::forward_subsequence(std::size_t i) {
    Scratch temporary = scratch(i, Phase::kForward, last());
    tag_.layer = -1;
    Value value = stage_input(i, temporary);
    if (!last()) outputs_[i] = add_buffer(BufferKind::kStaging, boundary_bytes(scenario_, subsequences_[i]));
    for (Row& row : rows_) {
        tag_.layer = row.layer;
        const auto first_op = id_at<OpId>(out_.schedule.ops.size());
        fetch_next_kv(row, i);
        open_kv(row, i);
        use_weights(row.part, i);
        value = row.layer < 0 ? forward_stage(i, row, std::move(value), temporary)
                              : forward_layer(i, row, std::move(value), temporary);
        close_kv(row, i);
        mark_row(i, row, Phase::kForward, first_op, last_op_);
    }
    tag_.layer = -1;
    if (last())
        loss(i, std::move(value), temporary);
    else if (rows_.front().layer >= 0)
        last_residual(i, value);
    else
        produced_[i] = value.made_by.front();
}

// `input`: the residual stream before this layer's first norm, which the layer saves. Returns what the next residual
// add reads: the reduced output of the MLP and the middle residual in this layer's unit.
Value StageEmitter::forward_layer(std::size_t i, Row& row, Value input, const Scratch& t) {
    const Subsequence sub = subsequences_[i];
    const Bytes bytes = gathered_bytes(scenario_, sub);
    const LayerForward kernels = layer_forward(scenario_, sub);
    const Saved saved = this->saved(i, row, Phase::kForward);
    const std::vector<Access> save = saved.all(AccessMode::kWrite);
    // After a layer of the same subsequence, its residual add belongs to this chain.
    const bool after_a_layer = row.part > 0 && !layer_major();

    KernelChain chain;
    if (after_a_layer) append(chain, kernels.residual, 1);
    append(chain, kernels.norm1, 1);
    const OpId norm1 =
        compute(Function::kNorm1, std::move(chain), input.made_by, join(join({read(weights_)}, save), input.reads));
    const OpId attention =
        scenario_.ulysses() ? exchanged_attention(i, row, saved, norm1, t) : attention_block(i, row, saved, norm1, t);
    const OpId norm2 =
        compute(Function::kNorm2, kernels.norm2, {attention}, join({read(weights_), read(t.stream)}, save));
    const Access stream = write(t.stream);
    const Value gathered = gather_normed(Function::kNorm2, {norm2}, saved, t.comm, 0, bytes);
    const OpId mlp =
        compute(Function::kMlp, kernels.mlp, gathered.made_by,
                join(join(join({read(weights_)}, save), {write(t.workspace), partial_sums(t.comm, 1, stream)}),
                     gathered.reads));
    return {{reduce_scatter(Function::kMlp, mlp, t.comm, 1, stream, bytes)},
            {read(t.stream), read(saved.checkpoints())}};
}

OpId StageEmitter::attention_block(std::size_t i, Row& row, const Saved& saved, OpId norm1, const Scratch& t) {
    const Bytes bytes = gathered_bytes(scenario_, subsequences_[i]);
    const auto block = static_cast<std::uint32_t>(i);
    const Value gathered = gather_normed(Function::kNorm1, {norm1}, saved, t.comm, 0, bytes);
    beside_compute();
    const Access stream = write(t.stream);
    std::vector<OpId> after = gathered.made_by;
    after.insert(after.end(), row.kv_ready.begin(), row.kv_ready.end());
    row.attention =
        compute(Function::kAttention, layer_forward(scenario_, subsequences_[i]).attention, std::move(after),
                join(join(join({read(weights_), write(row.kv, block, block), read(row.kv, 0, block)},
                               saved.all(AccessMode::kWrite)),
                          {write(t.workspace), partial_sums(t.comm, 1, stream)}),
                     gathered.reads));
    return reduce_scatter(Function::kAttention, row.attention, t.comm, 1, stream, bytes);
}

// All layers of the stage as one gather, one chain and one reduction: the same work and the same number of calls.
Value StageEmitter::forward_stage(std::size_t i, Row& row, Value input, const Scratch& t) {
    if (scenario_.ulysses()) return exchanged_forward_stage(i, row, input, t);
    const Subsequence sub = subsequences_[i];
    const Bytes bytes = gathered_bytes(scenario_, sub);
    const LayerForward kernels = layer_forward(scenario_, sub);
    const auto block = static_cast<std::uint32_t>(i);
    const Value gathered = all_gather(Function::kNone, input, t.comm, 0, bytes, 2 * row.layers);
    beside_compute();
    KernelChain chain =
        repeated({&kernels.norm1, &kernels.attention, &kernels.norm2, &kernels.mlp, &kernels.residual}, row.layers);
    const Access stream = last() ? write(t.stream) : write(outputs_[i]);
    std::vector<Access> accesses = join({read(weights_), write(row.kv, block, block), read(row.kv, 0, block)},
                                        saved(i, row, Phase::kForward).all(AccessMode::kWrite));
    accesses = join(std::move(accesses), {write(t.workspace), partial_sums(t.comm, 1, stream)});
    const OpId op =
        compute(Function::kNone, std::move(chain), gathered.made_by, join(std::move(accesses), gathered.reads));
    return {{reduce_scatter(Function::kNone, op, t.comm, 1, stream, bytes, 2 * row.layers)}, {read(t.stream)}};
}

// Layer granularity: the residual add after the stage's last layer, into the send buffer.
void StageEmitter::last_residual(std::size_t i, const Value& stream) {
    produced_[i] = compute(Function::kResidual, layer_forward(scenario_, subsequences_[i]).residual, stream.made_by,
                           join({write(outputs_[i])}, stream.reads));
}

// Final norm, chunked logits, cross-entropy and their gradients; leaves the gradient of the rank's shard for backward.
// Block 1 of the stream, free until the loss is reduced, has room for the norm's statistics.
void StageEmitter::loss(std::size_t i, Value stream, const Scratch& t) {
    const Subsequence sub = subsequences_[i];
    const Bytes bytes = gathered_bytes(scenario_, sub);
    const HeadKernels kernels = head_kernels(scenario_, sub);
    loss_gradients_[i] = add_buffer(BufferKind::kActivation, boundary_bytes(scenario_, sub));
    use_weights(head_part(), i);
    KernelChain chain;
    std::vector<Access> norm_input = stream.reads;  // backward of the norm reads it again
    if (rows_.front().layer >= 0 && !layer_major()) {
        chain = layer_forward(scenario_, sub).residual;
        norm_input = {read(t.stream)};
        stream.reads.push_back({t.stream, 0, 0, AccessMode::kAccumulate});
    }
    append(chain, kernels.norm, 1);
    const OpId norm = compute(Function::kFinalNorm, std::move(chain), stream.made_by,
                              join({read(weights_), write(loss_gradients_[i]), write(t.stream, 1, 1)}, stream.reads));
    const Value gathered = all_gather(Function::kFinalNorm, {{norm}, {read(loss_gradients_[i])}}, t.comm, 0, bytes);
    beside_compute();
    const Access shard = write(t.stream, 1, 1);
    std::vector<Access> accesses =
        join({read(weights_), gradient_access(head_part()), write(t.workspace), partial_sums(t.comm, 1, shard)},
             gathered.reads);
    if (scenario_.model.tied_embeddings && first()) accesses.push_back(gradient_access(embedding_part()));
    const OpId loss_op = compute(Function::kLoss, kernels.loss, gathered.made_by, std::move(accesses));
    const OpId reduced = reduce_scatter(Function::kLoss, loss_op, t.comm, 1, shard, bytes);
    const Access target{loss_gradients_[i], 0, 0, AccessMode::kAccumulate};
    loss_gradient_by_[i] =
        compute(Function::kFinalNormGradient, kernels.norm_backward, {reduced},
                join({read(weights_), read(t.stream, 1, 1), target, gradient_access(head_part()), write(t.workspace)},
                     norm_input));
    reduce_gradients(head_part(), i);
    if (scenario_.model.tied_embeddings && first()) reduce_gradients(embedding_part(), i);
}

}  // namespace sluice

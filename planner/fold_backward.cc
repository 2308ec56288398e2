// The backward pass of a folded rank: subsequences N-1..0, since dK and dV of one are complete only when all later ones
// have contributed.
#include <algorithm>
#include <utility>

#include "models/rank_memory.h"
#include "planner/stage_emitter.h"

namespace sluice {

void StageEmitter::backward(std::int32_t sequence) {
    tag_ = Tag{Phase::kBackward, sequence, static_cast<std::int32_t>(stage_), -1, -1, -1, -1};
    if (layer_major()) return backward_by_layer();
    const std::size_t n = subsequences_.size();
    std::fill(inputs_.begin(), inputs_.end(), kNoBuffer);  // from here on: gradients in, gradients out
    const auto receive_gradient = [&](std::size_t i) {
        if (last()) return;
        tag_.subsequence = static_cast<std::int32_t>(i), tag_.layer = -1;
        const Bytes bytes = boundary_bytes(scenario_, subsequences_[i]);
        inputs_[i] = add_buffer(BufferKind::kStaging, bytes);
        received_[i] = receive(next(), inputs_[i], bytes);
    };
    const auto send_gradient = [&](std::size_t i) {
        if (first()) return;
        tag_.subsequence = static_cast<std::int32_t>(i), tag_.layer = -1;
        send(previous(), produced_[i], outputs_[i], boundary_bytes(scenario_, subsequences_[i]));
    };
    receive_gradient(n - 1);
    for (std::size_t i = n; i-- > 0;) {
        if (i > 0) receive_gradient(i - 1);
        tag_.subsequence = static_cast<std::int32_t>(i);
        backward_subsequence(i);
        if (i + 1 < n) send_gradient(i + 1);
    }
    send_gradient(0);
}

void StageEmitter::backward_subsequence(std::size_t i) {
    const Scratch temporary = scratch(i, Phase::kBackward, false);
    Value gradient =
        last() ? Value{{loss_gradient_by_[i]}, {read(loss_gradients_[i])}} : Value{{received_[i]}, {read(inputs_[i])}};
    if (!first()) outputs_[i] = add_buffer(BufferKind::kStaging, boundary_bytes(scenario_, subsequences_[i]));
    for (std::size_t r = rows_.size(); r-- > 0;) {
        Row& row = rows_[r];
        tag_.layer = row.layer;
        const auto first_op = id_at<OpId>(out_.schedule.ops.size());
        use_weights(row.part, i);
        const auto output = r == 0 && !first() ? std::optional(write(outputs_[i])) : std::nullopt;
        fetch_next_kv(row, i);
        open_kv(row, i);
        gradient = row.layer < 0 ? backward_stage(i, row, std::move(gradient), temporary, output)
                                 : backward_layer(i, row, std::move(gradient), temporary, output);
        close_kv(row, i);
        mark_row(i, row, Phase::kBackward, first_op, last_op_);
        reduce_gradients(row.part, i);
    }
    tag_.layer = -1;
    produced_[i] = gradient.made_by.front();
    if (first()) embedding_gradient(i, gradient, temporary);
}

// `gradient`: of the layer's output, the rank's shard; it is also the residual part of the result. The result goes to
// `output` where given, else into the stream.
Value StageEmitter::backward_layer(std::size_t i, Row& row, Value gradient, const Scratch& t,
                                   std::optional<Access> output) {
    if (scenario_.ulysses()) return exchanged_backward_layer(i, row, gradient, t, output);
    const Subsequence sub = subsequences_[i];
    const Bytes bytes = gathered_bytes(scenario_, sub);
    const LayerBackward kernels = layer_backward(scenario_, sub);
    const auto block = static_cast<std::uint32_t>(i);
    const Saved saved = this->saved(i, row, Phase::kBackward);
    const std::vector<Access> reads = join({read(weights_)}, saved.all(AccessMode::kRead));
    const Access reduced_shard = write(t.stream, 1, 1);
    // The gathered inputs share one block: each waits for the weight gradient that read the one before it, which is the
    // last compute op so far (or none, when this is the first layer of the subsequence).
    std::vector<OpId> block_is_free;
    if (&row != &rows_.back() && !layer_major()) block_is_free = gradient.made_by;

    // MLP. What is made again does not wait for the gradient.
    Value dy, x;
    if (saved.remakes()) {
        x = remake_layer(i, row, saved, t, std::move(block_is_free));
        dy = all_gather(Function::kMlp, gradient, t.comm, 0, bytes);
    } else {
        dy = all_gather(Function::kMlp, gradient, t.comm, 0, bytes);
        x = gather_again(Function::kNorm2, std::move(block_is_free), saved, t, bytes);
    }
    beside_compute();
    const OpId mlp =
        compute(Function::kMlp, kernels.mlp_data, dy.made_by,
                join(join(join({read(weights_)}, saved.for_mlp_backward()),
                          {gradient_access(row.part), write(t.workspace), partial_sums(t.comm, 2, reduced_shard)}),
                     dy.reads));
    const OpId mlp_reduced = reduce_scatter(Function::kMlp, mlp, t.comm, 2, reduced_shard, bytes);
    const OpId mlp_weight = compute(Function::kMlpWeight, kernels.mlp_weight, x.made_by,
                                    join({read(t.workspace), gradient_access(row.part)}, x.reads));
    const OpId norm2 =
        compute(Function::kNorm2, kernels.norm2, {mlp_reduced},
                join(join(reads, {read(t.stream, 1, 1), gradient_access(row.part), write(t.stream)}), gradient.reads));
    // attention
    dy = all_gather(Function::kAttention, {{norm2}, {read(t.stream)}}, t.comm, 0, bytes);
    x = saved.whole_layers && scenario_.saves_gathered()  // there since it was made again
            ? Value{{}, {read(saved.norms())}}
            : gather_again(Function::kNorm1, {mlp_weight}, saved, t, bytes);
    if (saved.recomputed > 0 && !saved.whole_layers)
        recompute(Function::kQuery, layer_recompute(scenario_, sub).query, x.made_by,
                  join({read(weights_), write(saved.cheap), write(t.workspace)}, x.reads));
    std::vector<OpId> after = dy.made_by;
    after.insert(after.end(), row.kv_ready.begin(), row.kv_ready.end());
    // Gathered in place, into a buffer that backward is said to read.
    if (scenario_.saves_gathered() && saved.remakes() && saved.recomputed == 0)
        after.insert(after.end(), x.made_by.begin(), x.made_by.end());
    const OpId attention = row.attention = compute(
        Function::kAttention, kernels.attention_data, std::move(after),
        join(join(reads, attention_gradients(i, row, block)),
             join({gradient_access(row.part), write(t.workspace), partial_sums(t.comm, 2, reduced_shard)}, dy.reads)));
    const OpId attention_reduced = reduce_scatter(Function::kAttention, attention, t.comm, 2, reduced_shard, bytes);
    compute(Function::kAttentionWeight, kernels.attention_weight, x.made_by,
            join({read(t.workspace), read(row.dkv, block, block), gradient_access(row.part)}, x.reads));
    const Access result = output.value_or(write(t.stream));
    const OpId norm1 = compute(Function::kNorm1, kernels.norm1, {attention_reduced},
                               join(reads, {read(t.stream, 1, 1), gradient_access(row.part), read(t.stream), result}));
    return {{norm1}, {read(result.buffer, result.first_block, result.last_block)}};
}

// K and V of all keys so far, and their gradients: the last subsequence, which comes first, writes them.
std::vector<Access> StageEmitter::attention_gradients(std::size_t i, const Row& row, std::uint32_t block) const {
    const AccessMode contribution = i + 1 == subsequences_.size() ? AccessMode::kWrite : AccessMode::kAccumulate;
    return {read(row.kv, 0, block), {row.dkv, 0, block, contribution}};
}

// All layers at once: the gathered gradients are exposed, the gathered inputs run beside the data gradients, the
// reductions beside the weight gradients, as in each layer. Recomputed layers wait for their gathered inputs.
Value StageEmitter::backward_stage(std::size_t i, Row& row, Value gradient, const Scratch& t,
                                   std::optional<Access> output) {
    if (scenario_.ulysses()) return exchanged_backward_stage(i, row, gradient, t, output);
    const Subsequence sub = subsequences_[i];
    const Bytes bytes = gathered_bytes(scenario_, sub);
    const LayerBackward kernels = layer_backward(scenario_, sub);
    const auto block = static_cast<std::uint32_t>(i);
    const Saved saved = this->saved(i, row, Phase::kBackward);
    const auto gather_gradient = [&] {
        return all_gather(Function::kNone, gradient, t.comm, 0, bytes, 2 * row.layers);
    };
    Value dy, x;
    if (saved.remakes()) {
        x = remake_stage(i, row, saved, t);
        dy = gather_gradient();
    } else {
        dy = gather_gradient();
        x = scenario_.saves_gathered()
                ? Value{{}, {read(saved.norms())}}
                : all_gather(Function::kNone, {{}, {read(saved.norms())}}, t.comm, 1, bytes, 2 * row.layers);
    }
    beside_compute();
    KernelChain data =
        repeated({&kernels.mlp_data, &kernels.norm2, &kernels.attention_data, &kernels.norm1}, row.layers);
    KernelChain weight = repeated({&kernels.mlp_weight, &kernels.attention_weight}, row.layers);
    const Access result = output.value_or(write(t.stream));
    const std::vector<Access> reads = join({read(weights_)}, saved.for_mlp_backward());
    const OpId data_op =
        compute(Function::kNone, std::move(data), dy.made_by,
                join(join(reads, attention_gradients(i, row, block)),
                     join({gradient_access(row.part), write(t.workspace), partial_sums(t.comm, 2, result)}, dy.reads)));
    const OpId reduced = reduce_scatter(Function::kNone, data_op, t.comm, 2, result, bytes, 2 * row.layers);
    compute(Function::kNone, std::move(weight), x.made_by,
            join({read(t.workspace), read(row.dkv, block, block), gradient_access(row.part)}, x.reads));
    return {{reduced}, {read(result.buffer, result.first_block, result.last_block)}};
}

void StageEmitter::embedding_gradient(std::size_t i, const Value& gradient, const Scratch& t) {
    const Value dy = all_gather(Function::kEmbedding, gradient, t.comm, 0, gathered_bytes(scenario_, subsequences_[i]));
    compute(Function::kEmbedding, embedding_backward(scenario_, subsequences_[i]), dy.made_by,
            join({gradient_access(embedding_part())}, dy.reads));
    reduce_gradients(embedding_part(), i);
}

}  // namespace sluice

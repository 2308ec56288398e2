// Ulysses (Jacobs et al. 2023): a rank has the rows of its tokens everywhere but in attention, where it has all tokens
// and its share of the heads. What goes through the all-to-alls, by block of the exchange buffer: q, k and v out
// (sent), attention's output back (output rows); in backward the output once more, for the weights that read it, the
// gradient of the output out (sent), those of q, k and v back (sent, received). Order of one layer:
// models/layer_kernels.h.
#include "planner/stage_emitter.h"

namespace sluice {
namespace {

enum ExchangeBlock : std::uint32_t { kSentQuery, kSentKv, kOutputRows, kReceivedQuery, kReceivedKv };

}  // namespace

std::vector<Bytes> exchange_blocks(const Scenario& scenario, Subsequence sub, Phase phase) {
    const Bytes query = query_exchange_bytes(scenario, sub), kv = kv_exchange_bytes(scenario, sub);
    if (phase == Phase::kForward) return {query, kv, query};
    return {query, kv, query, query, kv};
}

OpId StageEmitter::all_to_all(Function function, Bytes bytes, std::vector<OpId> after, std::vector<Access> accesses,
                              std::uint32_t calls) {
    return emit(function, {LaneKind::kCollective, kNoRank},
                Collective{CollectiveKind::kAllToAll, groups_.sequence_parallel[stage_], bytes, calls, 0},
                std::move(after), std::move(accesses));
}

OpId StageEmitter::exchanged_attention(std::size_t i, Row& row, const Saved& saved, OpId norm1, const Scratch& t) {
    const Subsequence sub = subsequences_[i];
    const LayerForward kernels = layer_forward(scenario_, sub);
    const auto block = static_cast<std::uint32_t>(i);
    const Bytes query = query_exchange_bytes(scenario_, sub), kv = kv_exchange_bytes(scenario_, sub);
    const OpId qkv = compute(Function::kQkv, kernels.qkv, {norm1},
                             {read(weights_), read(saved.norms()), write(t.exchange, kSentQuery, kSentKv)});
    const OpId sent =
        all_to_all(Function::kQkv, query + kv, {qkv},
                   {read(t.exchange, kSentQuery, kSentKv), write(saved.query()), write(row.kv, block, block)});
    beside_compute();
    std::vector<OpId> after{sent};
    after.insert(after.end(), row.kv_ready.begin(), row.kv_ready.end());
    const OpId attention = row.attention =
        compute(Function::kAttention, kernels.attention, std::move(after),
                join(saved.all(AccessMode::kWrite), {read(row.kv, 0, block), write(t.workspace)}));
    const OpId back = all_to_all(Function::kAttention, query, {attention},
                                 {read(saved.checkpoints()), write(t.exchange, kOutputRows, kOutputRows)});
    return compute(Function::kProjection, kernels.projection, {back},
                   {read(weights_), read(t.exchange, kOutputRows, kOutputRows), write(t.stream)});
}

// All layers of the stage as one call out, one chain and one call back: the same work and the same number of calls.
Value StageEmitter::exchanged_forward_stage(std::size_t i, Row& row, const Value& input, const Scratch& t) {
    const Subsequence sub = subsequences_[i];
    const LayerForward kernels = layer_forward(scenario_, sub);
    const auto block = static_cast<std::uint32_t>(i);
    const Bytes query = query_exchange_bytes(scenario_, sub), kv = kv_exchange_bytes(scenario_, sub);
    const OpId sent = all_to_all(Function::kNone, query + kv, input.made_by,
                                 join(input.reads, {write(t.exchange, kSentQuery, kSentKv)}), row.layers);
    beside_compute();
    KernelChain chain = repeated({&kernels.norm1, &kernels.qkv, &kernels.attention, &kernels.projection, &kernels.norm2,
                                  &kernels.mlp, &kernels.residual},
                                 row.layers);
    const std::vector<Access> saves = saved(i, row, Phase::kForward).all(AccessMode::kWrite);
    const OpId op = compute(
        Function::kNone, std::move(chain), {sent},
        join(join({read(weights_), write(row.kv, block, block), read(row.kv, 0, block)}, saves),
             {write(t.workspace), read(t.exchange, kSentQuery, kSentKv), write(t.exchange, kOutputRows, kOutputRows)}));
    const OpId back = all_to_all(
        Function::kNone, query, {op},
        {read(t.exchange, kOutputRows, kOutputRows), last() ? write(t.stream) : write(outputs_[i])}, row.layers);
    return {{back}, {read(t.stream)}};
}

// The query is made of the rank's tokens and has to be sent; what is saved is of its heads. It shares a buffer with
// what the MLP makes again, so that waits. Of whole layers attention's output goes to the rank's rows for the
// projection, where backward finds it again.
OpId StageEmitter::exchanged_remake(std::size_t i, const Row& row, const Saved& saved, const Scratch& t) {
    const Subsequence sub = subsequences_[i];
    const LayerRecompute again = layer_recompute(scenario_, sub);
    const Bytes bytes = query_exchange_bytes(scenario_, sub);
    const bool by_layer = row.layer >= 0;
    const auto function = [&](Function f) { return by_layer ? f : Function::kNone; };
    remake_norms(i, row, saved);
    if (saved.recomputed == 0) return kNoOp;
    const OpId query = recompute(function(Function::kQuery), repeated({&again.query}, saved.recomputed), {},
                                 {read(weights_), read(saved.norms()), write(t.exchange, kSentQuery, kSentQuery)});
    tag_.phase = Phase::kRecompute;
    const OpId sent = all_to_all(function(Function::kQuery), bytes, {query},
                                 {read(t.exchange, kSentQuery, kSentQuery), write(saved.cheap)}, saved.recomputed);
    tag_.phase = Phase::kBackward;
    OpId output_rows = kNoOp;
    if (saved.whole_layers) {
        std::vector<OpId> after{sent};
        after.insert(after.end(), row.kv_ready.begin(), row.kv_ready.end());
        const OpId attention =
            recompute(function(Function::kAttention), repeated({&again.attention}, saved.recomputed), std::move(after),
                      {read(row.kv, 0, static_cast<std::uint32_t>(i)), write(saved.cheap), write(t.workspace)});
        tag_.phase = Phase::kRecompute;
        output_rows = all_to_all(function(Function::kAttention), bytes, {attention},
                                 {read(saved.cheap), write(t.exchange, kOutputRows, kOutputRows)}, saved.recomputed);
        tag_.phase = Phase::kBackward;
        recompute(function(Function::kProjection), repeated({&again.projection}, saved.recomputed), {output_rows},
                  {read(weights_), read(t.exchange, kOutputRows, kOutputRows), write(t.stream, 1, 1)});
        remake_norm2(i, row, saved, {}, t);
    }
    recompute(function(Function::kMlp), repeated({&again.mlp}, saved.recomputed), {sent},
              {read(weights_), read(saved.norms()), write(saved.cheap), write(t.workspace)});
    return output_rows;
}

// The output once more, and the gradient of it, come in beside compute; those of q, k and v are waited for.
Value StageEmitter::exchanged_backward_layer(std::size_t i, Row& row, const Value& gradient, const Scratch& t,
                                             std::optional<Access> output) {
    const Subsequence sub = subsequences_[i];
    const LayerBackward kernels = layer_backward(scenario_, sub);
    const auto block = static_cast<std::uint32_t>(i);
    const Bytes query = query_exchange_bytes(scenario_, sub), kv = kv_exchange_bytes(scenario_, sub);
    const Saved saved = this->saved(i, row, Phase::kBackward);
    const std::vector<Access> reads = join({read(weights_)}, saved.all(AccessMode::kRead));
    OpId output_rows = saved.remakes() ? exchanged_remake(i, row, saved, t) : kNoOp;
    // Behind all compute so far: the layer above has read its output rows, and forward has made the unit.
    if (output_rows == kNoOp)
        output_rows = all_to_all(Function::kAttention, query, {last_compute_},
                                 {read(saved.unit), write(t.exchange, kOutputRows, kOutputRows)});
    beside_compute();
    const OpId mlp = compute(Function::kMlp, kernels.mlp_data, gradient.made_by,
                             join(join(join({read(weights_)}, saved.for_mlp_backward()),
                                       {gradient_access(row.part), write(t.workspace), write(t.stream, 1, 1)}),
                                  gradient.reads));
    const OpId norm2 =
        compute(Function::kNorm2, kernels.norm2, {mlp},
                join(join(reads, {read(t.stream, 1, 1), gradient_access(row.part), write(t.stream)}), gradient.reads));
    const OpId projection = compute(Function::kProjection, kernels.projection, {norm2},
                                    {read(weights_), read(t.stream), write(t.exchange, kSentQuery, kSentQuery)});
    const OpId arrived =
        all_to_all(Function::kProjection, query, {projection},
                   {read(t.exchange, kSentQuery, kSentQuery), write(t.exchange, kReceivedQuery, kReceivedQuery)});
    compute(Function::kMlpWeight, kernels.mlp_weight, {},
            {read(t.workspace), read(saved.norms()), gradient_access(row.part)});
    compute(Function::kProjectionWeight, kernels.projection_weight, {output_rows},
            {read(t.exchange, kOutputRows, kOutputRows), read(t.stream), gradient_access(row.part)});
    std::vector<OpId> after{arrived};
    after.insert(after.end(), row.kv_ready.begin(), row.kv_ready.end());
    const OpId attention = row.attention =
        compute(Function::kAttention, kernels.attention_data, std::move(after),
                join(join(saved.all(AccessMode::kRead), attention_gradients(i, row, block)),
                     {read(t.exchange, kReceivedQuery, kReceivedQuery), write(t.exchange, kSentQuery, kSentKv),
                      write(t.workspace)}));
    const OpId back =
        all_to_all(Function::kQkv, query + kv, {attention},
                   {read(t.exchange, kSentQuery, kSentKv), write(t.exchange, kReceivedQuery, kReceivedKv)});
    const OpId qkv = compute(Function::kQkv, kernels.qkv, {back},
                             {read(weights_), read(saved.norms()), read(t.exchange, kReceivedQuery, kReceivedKv),
                              gradient_access(row.part), write(t.stream, 1, 1)});
    const Access result = output.value_or(write(t.stream));
    const OpId norm1 = compute(Function::kNorm1, kernels.norm1, {qkv},
                               join(reads, {read(t.stream, 1, 1), gradient_access(row.part), read(t.stream), result}));
    return {{norm1}, {read(result.buffer, result.first_block, result.last_block)}};
}

// All layers at once: the gradients of outputs are exposed, the outputs run beside the data gradients, the gradients of
// q, k and v beside the weight gradients. In each layer it is the other way round with the first and the last of these.
Value StageEmitter::exchanged_backward_stage(std::size_t i, Row& row, const Value& gradient, const Scratch& t,
                                             std::optional<Access> output) {
    const Subsequence sub = subsequences_[i];
    const LayerBackward kernels = layer_backward(scenario_, sub);
    const auto block = static_cast<std::uint32_t>(i);
    const Bytes query = query_exchange_bytes(scenario_, sub), kv = kv_exchange_bytes(scenario_, sub);
    const Saved saved = this->saved(i, row, Phase::kBackward);
    OpId output_rows = saved.remakes() ? exchanged_remake(i, row, saved, t) : kNoOp;
    const OpId arrived =
        all_to_all(Function::kNone, query, gradient.made_by,
                   join(gradient.reads, {write(t.exchange, kReceivedQuery, kReceivedQuery)}), row.layers);
    // Those that are there are waited for: their projections have read the block.
    const std::uint32_t there = output_rows == kNoOp ? 0 : saved.recomputed;
    if (there < row.layers)
        output_rows = all_to_all(Function::kNone, query, there > 0 ? std::vector{last_compute_} : std::vector<OpId>{},
                                 {read(saved.unit), write(t.exchange, kOutputRows, kOutputRows)}, row.layers - there);
    beside_compute();
    KernelChain data = repeated(
        {&kernels.mlp_data, &kernels.norm2, &kernels.projection, &kernels.attention_data, &kernels.qkv, &kernels.norm1},
        row.layers);
    KernelChain weight = repeated({&kernels.mlp_weight, &kernels.projection_weight}, row.layers);
    const std::vector<Access> reads = join({read(weights_)}, saved.for_mlp_backward());
    const OpId data_op =
        compute(Function::kNone, std::move(data), {arrived},
                join(join(reads, attention_gradients(i, row, block)),
                     {gradient_access(row.part), write(t.workspace), read(t.exchange, kReceivedQuery, kReceivedQuery),
                      write(t.exchange, kSentQuery, kSentKv)}));
    const Access result = output.value_or(write(t.stream));
    const OpId back =
        all_to_all(Function::kNone, query + kv, {data_op}, {read(t.exchange, kSentQuery, kSentKv), result}, row.layers);
    compute(Function::kNone, std::move(weight), {output_rows},
            {read(t.workspace), read(t.exchange, kOutputRows, kOutputRows), read(saved.norms()),
             gradient_access(row.part)});
    return {{back}, {read(result.buffer, result.first_block, result.last_block)}};
}

}  // namespace sluice

// Layer-major order: all subsequences of a layer, then the next layer. One stage. What passes from layer to layer is
// the residual stream of every subsequence, and in backward its gradient.
#include <utility>

#include "planner/stage_emitter.h"

namespace sluice {

void StageEmitter::forward_by_layer() {
    const std::size_t n = subsequences_.size();
    std::vector<Value> streams(n);
    for (std::size_t i = 0; i < n; ++i) {
        tag_.subsequence = static_cast<std::int32_t>(i), tag_.layer = -1;
        Scratch temporary = scratch(i, Phase::kForward, false);
        streams[i] = stage_input(i, temporary);
    }
    for (Row& row : rows_)
        for (std::size_t i = 0; i < n; ++i) {
            tag_.subsequence = static_cast<std::int32_t>(i), tag_.layer = row.layer;
            const Scratch temporary = scratch(i, Phase::kForward, false);
            const auto first_op = id_at<OpId>(out_.schedule.ops.size());
            open_kv(row, i);
            use_weights(row.part, i);
            const Value sums = forward_layer(i, row, std::move(streams[i]), temporary);
            // The residual add of the layer: what follows must not need the unit, which is to leave.
            const OpId residual =
                compute(Function::kResidual, layer_forward(scenario_, subsequences_[i]).residual, sums.made_by,
                        {sums.reads.back(), {temporary.stream, 0, 0, AccessMode::kAccumulate}});
            streams[i] = {{residual}, {read(temporary.stream)}};
            close_kv(row, i);
            mark_row(i, row, Phase::kForward, first_op, last_op_);
        }
    unit_at(n - 1, rows_.back()).offload_after = last_op_;
    for (std::size_t i = 0; i < n; ++i) {
        tag_.subsequence = static_cast<std::int32_t>(i), tag_.layer = -1;
        loss(i, std::move(streams[i]), scratch(i, Phase::kForward, true));
    }
}

void StageEmitter::backward_by_layer() {
    const std::size_t n = subsequences_.size();
    std::vector<Value> gradients(n);
    for (std::size_t i = 0; i < n; ++i) gradients[i] = {{loss_gradient_by_[i]}, {read(loss_gradients_[i])}};
    for (std::size_t r = rows_.size(); r-- > 0;)
        for (std::size_t i = n; i-- > 0;) {
            Row& row = rows_[r];
            tag_.subsequence = static_cast<std::int32_t>(i), tag_.layer = row.layer;
            const Scratch temporary = scratch(i, Phase::kBackward, false);
            const BufferId result = add_buffer(BufferKind::kStaging, boundary_bytes(scenario_, subsequences_[i]));
            const auto first_op = id_at<OpId>(out_.schedule.ops.size());
            fetch_next_kv(row, i);
            open_kv(row, i);
            use_weights(row.part, i);
            gradients[i] = backward_layer(i, row, std::move(gradients[i]), temporary, write(result));
            mark_row(i, row, Phase::kBackward, first_op, last_op_);
            reduce_gradients(row.part, i);
        }
    tag_.layer = -1;
    for (std::size_t i = n; i-- > 0;) {
        tag_.subsequence = static_cast<std::int32_t>(i);
        embedding_gradient(i, gradients[i], scratch(i, Phase::kBackward, false));
    }
}

}  // namespace sluice

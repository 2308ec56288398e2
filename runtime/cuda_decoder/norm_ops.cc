#include "runtime/cuda/elementwise.h"
#include "runtime/cuda_decoder/bind_op.h"

namespace sluice::cuda {
namespace {

// A norm of a layer: its input and what it saves.
struct SavedNorm {
    Bf16Matrix x, y;
    float* statistics = nullptr;
};

SavedNorm saved_norm(const LayerOp& l, bool second) {
    const CudaRank& c = l.rank;
    const std::int64_t rows = c.rows(l.op), hidden = c.model().hidden;
    // Of a layer made again as a whole norm2 makes its input, as in forward.
    const bool makes_input = l.op.tag.phase == Phase::kForward ||
                             (l.op.tag.phase == Phase::kRecompute && l.op.tag.function == Function::kNorm2);
    const AccessMode mode = makes_input ? AccessMode::kWrite : AccessMode::kRead;
    SavedNorm norm;
    norm.x = l.operands.matrix(l.operands.tensor(second ? Tensor::kMiddleResidual : Tensor::kBlockInput, mode), rows,
                               hidden);
    const std::span<float> statistics = l.floats.tensor(second ? Tensor::kNorm2Statistics : Tensor::kNorm1Statistics);
    if (static_cast<std::int64_t>(statistics.size()) != rows * statistics_per_row(c.model()))
        l.operands.refuse("the norm's statistics have another size");
    norm.statistics = statistics.data();
    if (l.op.tag.phase != Phase::kBackward)
        norm.y = l.operands.own_rows(l.operands.tensor(second ? Tensor::kNorm2Output : Tensor::kNorm1Output), rows,
                                     c.first_row(l.op), c.tokens(l.op), hidden);
    return norm;
}

NormWeights norm_weights(const LayerOp& l, bool second) {
    const std::span<Bf16> bias = l.weights.norm_bias(second);
    return {l.weights.norm(second).data(), bias.empty() ? nullptr : bias.data(),
            static_cast<float>(l.rank.model().norm_epsilon)};
}

}  // namespace

std::int64_t statistics_per_row(const Architecture& a) { return a.norm == Norm::kLayerNorm ? 2 : 1; }

// The residual add and the norm are one kernel, and so are a copy of what arrives and its norm; its time is the norm's.
BoundCudaOp bind_norm_forward(const CudaRank& c, const Op& op, bool second) {
    const LayerOp l = layer_op(c, op);
    const SavedNorm norm = saved_norm(l, second);
    const NormWeights weights = norm_weights(l, second);
    const Bf16Matrix arriving = l.operands.matrix(l.operands.arriving(), norm.x.rows, norm.x.columns);
    Bf16Matrix residual;
    if (second)
        residual = l.operands.matrix(l.operands.tensor(Tensor::kBlockInput), norm.x.rows, norm.x.columns);
    else if (l.operands.has(Tensor::kMiddleResidual, AccessMode::kRead))
        residual = l.operands.matrix(l.operands.tensor(Tensor::kMiddleResidual, AccessMode::kRead), norm.x.rows,
                                     norm.x.columns);
    return [=](StreamClock& clock) {
        if (residual.data != nullptr) {
            clock.lap();
            residual_norm_forward(clock.stream(), residual, arriving, norm.x, weights, norm.y, norm.statistics);
        } else {
            copy_norm_forward(clock.stream(), arriving, norm.x, weights, norm.y, norm.statistics);
        }
        clock.lap();
    };
}

// One norm of a layer that kept its block input alone: norm1 of that, norm2 by forward's kernel.
BoundCudaOp bind_norm_again(const CudaRank& c, const Op& op, bool second) {
    const LayerOp l = layer_op(c, op);
    const SavedNorm norm = saved_norm(l, second);
    const NormWeights weights = norm_weights(l, second);
    Bf16Matrix residual, sums;
    if (second) {
        residual = l.operands.matrix(l.operands.tensor(Tensor::kBlockInput), norm.x.rows, norm.x.columns);
        sums = l.operands.matrix(l.operands.stream(1), norm.x.rows, norm.x.columns);
    }
    return [=](StreamClock& clock) {
        if (second) {
            clock.lap();
            residual_norm_forward(clock.stream(), residual, sums, norm.x, weights, norm.y, norm.statistics);
        } else {
            norm_forward(clock.stream(), norm.x, weights, norm.y, norm.statistics);
        }
        clock.lap();
    };
}

BoundCudaOp bind_norms_again(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const SavedNorm norm1 = saved_norm(l, false), norm2 = saved_norm(l, true);
    const NormWeights weights1 = norm_weights(l, false), weights2 = norm_weights(l, true);
    return [=](StreamClock& clock) {
        norm_forward(clock.stream(), norm1.x, weights1, norm1.y, norm1.statistics);
        clock.lap();
        norm_forward(clock.stream(), norm2.x, weights2, norm2.y, norm2.statistics);
        clock.lap();
    };
}

BoundCudaOp bind_norm_backward(const CudaRank& c, const Op& op, bool second) {
    const LayerOp l = layer_op(c, op);
    const SavedNorm norm = saved_norm(l, second);
    const LayerGradients gradients = layer_gradients(l);
    const std::int64_t rows = norm.x.rows, hidden = norm.x.columns;
    const NormBackward in{l.operands.matrix(l.operands.stream(1), rows, hidden), norm.x, norm_weights(l, second),
                          norm.statistics, l.operands.matrix(l.operands.arriving(), rows, hidden)};
    const Bf16Matrix dx = l.operands.matrix(l.operands.target(), rows, hidden);
    const std::span<float> dbias = gradients.of.norm_bias(second);
    const NormGradients of{gradients.of.norm(second).data(), dbias.empty() ? nullptr : dbias.data()};
    const Scratch scratch = c.scratch;
    return [=](StreamClock& clock) {
        gradients.begin(clock.stream());
        norm_backward(clock.stream(), in, dx, of, scratch);
        clock.lap();
    };
}

BoundCudaOp bind_residual(const CudaRank& c, const Op& op) {
    const OperandsOf<Bf16> o(c.schedule, c.arenas, op);
    const std::int64_t rows = c.rows(op), hidden = c.model().hidden;
    const Bf16Matrix middle = o.matrix(o.tensor(Tensor::kMiddleResidual, AccessMode::kRead), rows, hidden);
    const Bf16Matrix target = o.matrix(o.target(), rows, hidden), sums = o.matrix(o.stream(0), rows, hidden);
    return [=](StreamClock& clock) {
        residual_add(clock.stream(), middle, sums, target);
        clock.lap();
    };
}

}  // namespace sluice::cuda

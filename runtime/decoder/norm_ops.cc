#include <algorithm>

#include "runtime/cpu/layer_norm.h"
#include "runtime/cpu/residual_add.h"
#include "runtime/cpu/rms_norm.h"
#include "runtime/decoder/bind_op.h"

namespace sluice {
namespace {

// A norm of a layer: its input and what it saves.
struct SavedNorm {
    MatrixView x, y;
    std::span<float> statistics;
};

SavedNorm saved_norm(const LayerOp& l, bool second) {
    const RankContext& c = l.context;
    const std::int64_t rows = c.rows(l.op), hidden = c.model().hidden;
    // Of a layer made again as a whole norm2 makes its input, as in forward.
    const bool makes_input = l.op.tag.phase == Phase::kForward ||
                             (l.op.tag.phase == Phase::kRecompute && l.op.tag.function == Function::kNorm2);
    SavedNorm norm;
    norm.x = l.operands.matrix(l.operands.tensor(second ? Tensor::kMiddleResidual : Tensor::kBlockInput,
                                                 makes_input ? AccessMode::kWrite : AccessMode::kRead),
                               rows, hidden);
    norm.statistics = l.operands.tensor(second ? Tensor::kNorm2Statistics : Tensor::kNorm1Statistics);
    if (static_cast<std::int64_t>(norm.statistics.size()) != rows * statistics_per_row(c.model()))
        l.operands.refuse("the norm's statistics have another size");
    if (l.op.tag.phase != Phase::kBackward)
        norm.y = l.operands.own_rows(l.operands.tensor(second ? Tensor::kNorm2Output : Tensor::kNorm1Output), rows,
                                     c.first_row(l.op), c.tokens(l.op), hidden);
    return norm;
}

NormWeights norm_weights(const LayerParameters& of, bool second) { return {of.norm(second), of.norm_bias(second)}; }

void copy_rows(ConstMatrixView from, MatrixView to) { std::copy_n(from.data, from.rows * from.columns, to.data); }

}  // namespace

std::int64_t statistics_per_row(const Architecture& a) { return a.norm == Norm::kLayerNorm ? 2 : 1; }

void norm_forward(const Architecture& a, ConstMatrixView x, const NormWeights& w, MatrixView y,
                  std::span<float> statistics) {
    const auto rows = static_cast<std::size_t>(x.rows);
    const auto epsilon = static_cast<float>(a.norm_epsilon);
    if (a.norm == Norm::kRmsNorm) return rms_norm_forward(x, w.weight, epsilon, y, statistics.first(rows));
    layer_norm_forward(x, {w.weight, w.bias, epsilon}, y,
                       {statistics.first(rows), statistics.subspan(rows, rows)});
}

void norm_backward(const Architecture& a, const NormBackward& in, MatrixView dx, const NormWeights& gradients) {
    const auto rows = static_cast<std::size_t>(in.x.rows);
    if (a.norm == Norm::kRmsNorm)
        return rms_norm_backward({in.dy, in.x, in.weight, in.statistics.first(rows), in.passed}, dx, gradients.weight);
    layer_norm_backward(
        {in.dy, in.x, in.weight, in.statistics.first(rows), in.statistics.subspan(rows, rows), in.passed}, dx,
        gradients.weight, gradients.bias);
}

// Forward of a norm, with what makes its input: norm2 adds attention's sums to the block input; norm1 adds the MLP's
// sums of the layer below to its middle residual, or takes over what arrives.
BoundOp bind_norm_forward(const RankContext& c, const Op& op, bool second) {
    const LayerOp l = layer_op(c, op);
    const SavedNorm norm = saved_norm(l, second);
    const NormWeights weights = norm_weights(l.weights, second);
    const Architecture& model = c.model();
    const ConstMatrixView arriving = l.operands.matrix(l.operands.arriving(), norm.x.rows, norm.x.columns);
    ConstMatrixView residual;
    if (second)
        residual = l.operands.matrix(l.operands.tensor(Tensor::kBlockInput), norm.x.rows, norm.x.columns);
    else if (l.operands.has(Tensor::kMiddleResidual, AccessMode::kRead))
        residual = l.operands.matrix(l.operands.tensor(Tensor::kMiddleResidual, AccessMode::kRead), norm.x.rows,
                                     norm.x.columns);
    return [=, &model](KernelClock& clock) {
        if (residual.data != nullptr) {
            residual_add(residual, arriving, norm.x);
            clock.lap();
        } else {
            copy_rows(arriving, norm.x);
        }
        norm_forward(model, norm.x, weights, norm.y, norm.statistics);
        clock.lap();
    };
}

// One norm of a layer that kept its block input alone: norm1 of that, norm2 behind the add of attention's sums.
BoundOp bind_norm_again(const RankContext& c, const Op& op, bool second) {
    const LayerOp l = layer_op(c, op);
    const SavedNorm norm = saved_norm(l, second);
    const NormWeights weights = norm_weights(l.weights, second);
    const Architecture& model = c.model();
    ConstMatrixView residual, sums;
    if (second) {
        residual = l.operands.matrix(l.operands.tensor(Tensor::kBlockInput), norm.x.rows, norm.x.columns);
        sums = l.operands.matrix(l.operands.stream(1), norm.x.rows, norm.x.columns);
    }
    return [=, &model](KernelClock& clock) {
        if (second) {
            residual_add(residual, sums, norm.x);
            clock.lap();
        }
        norm_forward(model, norm.x, weights, norm.y, norm.statistics);
        clock.lap();
    };
}

BoundOp bind_norms_again(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const SavedNorm norm1 = saved_norm(l, false), norm2 = saved_norm(l, true);
    const NormWeights weights1 = norm_weights(l.weights, false), weights2 = norm_weights(l.weights, true);
    const Architecture& model = c.model();
    return [=, &model](KernelClock& clock) {
        norm_forward(model, norm1.x, weights1, norm1.y, norm1.statistics);
        clock.lap();
        norm_forward(model, norm2.x, weights2, norm2.y, norm2.statistics);
        clock.lap();
    };
}

// dx = the gradient that passes by on the residual + the norm's.
BoundOp bind_norm_backward(const RankContext& c, const Op& op, bool second) {
    const LayerOp l = layer_op(c, op);
    const SavedNorm norm = saved_norm(l, second);
    const LayerGradients gradients = layer_gradients(l);
    const std::int64_t rows = norm.x.rows, hidden = norm.x.columns;
    const NormBackward in{l.operands.matrix(l.operands.stream(1), rows, hidden), norm.x, l.weights.norm(second),
                          norm.statistics, l.operands.matrix(l.operands.arriving(), rows, hidden)};
    const MatrixView dx = l.operands.matrix(l.operands.target(), rows, hidden);
    const Architecture& model = c.model();
    return [=, &model](KernelClock& clock) {
        gradients.begin();
        norm_backward(model, in, dx, norm_weights(gradients.of, second));
        clock.lap();
    };
}

// The residual add after the MLP where no norm follows in the same op: of a stage's last layer, into what is sent, or
// of any layer in layer-major order, in place.
BoundOp bind_residual(const RankContext& c, const Op& op) {
    const Operands o(c.schedule, c.arenas, op);
    const std::int64_t rows = c.rows(op), hidden = c.model().hidden;
    const ConstMatrixView middle = o.matrix(o.tensor(Tensor::kMiddleResidual, AccessMode::kRead), rows, hidden);
    const MatrixView target = o.matrix(o.target(), rows, hidden);
    const ConstMatrixView sums = o.matrix(o.stream(0), rows, hidden);
    return [=](KernelClock& clock) {
        residual_add(middle, sums, target);
        clock.lap();
    };
}

}  // namespace sluice

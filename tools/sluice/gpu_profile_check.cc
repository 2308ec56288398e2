#include "tools/sluice/gpu_profile_check.h"

#include <fmt/format.h>

#include <span>

#include "base/error.h"
#include "base/format_units.h"
#include "models/kernel_cost.h"
#include "models/rank_memory.h"
#include "scenarios/scenario.h"

namespace sluice {
namespace {

PredictionError products_error(std::span<const ProductFigure> products, const Calibration& c) {
    std::vector<double> errors;
    for (const ProductFigure& p : products) errors.push_back(kernel_time({p.shape, 1}, c) / p.mean() - 1);
    return error_of(std::move(errors));
}

PredictionError attention_error(std::span<const AttentionFigure> figures, const Calibration& c) {
    std::vector<double> errors;
    for (const AttentionFigure& f : figures)
        for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
            Attention a = f.shape;
            a.pass = pass;
            const Measurement& measured = pass == Pass::kForward ? f.forward : f.backward;
            errors.push_back(kernel_time({a, 1}, c) / measured.median - 1);
        }
    return error_of(std::move(errors));
}

PointwiseKind kind_of(PointwiseKernel kernel) {
    switch (kernel) {
        case PointwiseKernel::kNorm:
        case PointwiseKernel::kLayerNorm:
        case PointwiseKernel::kRmsNorm:
            return PointwiseKind::kNorm;
        case PointwiseKernel::kActivation:
        case PointwiseKernel::kGelu:
        case PointwiseKernel::kSwiglu:
            return PointwiseKind::kActivation;
        case PointwiseKernel::kRope:
            return PointwiseKind::kRope;
        case PointwiseKernel::kResidual:
            return PointwiseKind::kResidual;
        case PointwiseKernel::kEmbedding:
            return PointwiseKind::kEmbedding;
        case PointwiseKernel::kCrossEntropy:
            return PointwiseKind::kCrossEntropy;
        case PointwiseKernel::kAccumulate:
            return PointwiseKind::kAccumulate;
        case PointwiseKernel::kAdamw:
            return PointwiseKind::kAdamw;
        case PointwiseKernel::kOther:
            return PointwiseKind::kOther;
    }
    SLUICE_CHECK(false, "a memory-bound kernel has a kind");
}

// What a model that has this form of a kernel reads in the tables.
Calibration of_form(const Calibration& whole, PointwiseKernel kernel) {
    Architecture model;
    model.norm = kernel == PointwiseKernel::kLayerNorm ? Norm::kLayerNorm : Norm::kRmsNorm;
    model.activation = kernel == PointwiseKernel::kGelu ? ActivationFunction::kGelu : ActivationFunction::kSwiglu;
    return calibration_of_model(whole, model);
}

PredictionError pointwise_error(std::span<const PointwiseFigure> figures, const Calibration& whole) {
    std::vector<double> errors;
    for (const PointwiseFigure& f : figures) {
        const Kernel kernel{Pointwise{kind_of(f.kernel), f.traffic / f.calls}, static_cast<std::uint32_t>(f.calls)};
        errors.push_back(kernel_time(kernel, of_form(whole, f.kernel)) / f.time.median - 1);
    }
    return error_of(std::move(errors));
}

Bytes aligned(Bytes b) { return round_up(b, 256_B); }

// What an engine lays out in the workspace of an attention op, against what the planner gives it.
void check_workspace(const AttentionFigure& f, const Calibration& c, std::vector<std::string>& found) {
    const Attention& a = f.shape;
    Scenario s;
    s.calibration = c;
    s.model.heads = a.heads, s.model.kv_heads = a.kv_heads, s.model.head_dim = a.head_dim, s.model.ffn = 1;
    s.precision = {DataType::kBf16, DataType::kFp32, DataType::kFp32};
    s.policy.sp = 1;
    const Subsequence sub{Tokens{a.keys - a.queries}, Tokens{a.queries}};
    const Bytes queries{2 * a.queries * a.heads * a.head_dim}, own{2 * 2 * a.queries * a.kv_heads * a.head_dim};
    const auto expect = [&](const char* pass, Bytes need, Bytes given) {
        if (need > given)
            found.push_back(
                fmt::format("{} attention of {} queries and {} keys needs a workspace of {}, the memory "
                            "model gives {}",
                            pass, a.queries, a.keys, format(need), format(given)));
    };
    expect("forward", aligned(f.forward_workspace), forward_workspace(s, sub));
    expect("backward", aligned(queries) + aligned(queries) + aligned(own) + aligned(f.backward_workspace),
           backward_workspace(s, sub));
}

}  // namespace

GpuProfileCheck check_gpu_profile(const GpuFigures& f, const Calibration& calibration) {
    Calibration c = calibration;
    c.kernel_gap = Seconds{0};  // figures are of calls without an event between them
    GpuProfileCheck check;
    check.other = {products_error(f.other_products, c), attention_error(f.other_attention, c),
                   pointwise_error(f.other_pointwise, c)};
    check.gemm_table = products_error(f.products, c);
    for (const auto* figures : {&f.attention, &f.other_attention})
        for (const AttentionFigure& figure : *figures) check_workspace(figure, calibration, check.short_workspaces);
    return check;
}

}  // namespace sluice

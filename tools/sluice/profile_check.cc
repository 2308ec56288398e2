#include "tools/sluice/profile_check.h"

#include <algorithm>
#include <cmath>

#include "models/kernel_cost.h"
#include "scenarios/architecture.h"

namespace sluice {
namespace {

double error(Seconds predicted, Seconds measured) { return predicted / measured - 1; }

// The three products of a linear layer of `in` to `out` features.
void check_layer(KernelBench& bench, const Calibration& c, std::int64_t tokens, std::int64_t in, std::int64_t out,
                 std::vector<double>& errors) {
    for (const Gemm& g : {Gemm{tokens, out, in}, Gemm{tokens, in, out}, Gemm{out, in, tokens}})
        errors.push_back(error(kernel_time({g, 1}, c), bench.time(g).median));
}

PredictionError check_gemm(KernelBench& bench, const Calibration& c, bool quick) {
    std::vector<double> errors;
    const std::vector<std::int64_t> hiddens =
        quick ? std::vector<std::int64_t>{96} : std::vector<std::int64_t>{96, 192, 320, 768};
    for (const std::int64_t tokens : {24, 100, 400, 1500})
        for (const std::int64_t hidden : hiddens) {
            check_layer(bench, c, tokens, hidden, 3 * hidden, errors);
            if (!quick) check_layer(bench, c, tokens, hidden, hidden * 8 / 3, errors);
        }
    return error_of(std::move(errors));
}

PredictionError check_attention(KernelBench& bench, const Calibration& c, bool quick) {
    std::vector<double> errors;
    const std::vector<std::int64_t> prefixes =
        quick ? std::vector<std::int64_t>{0} : std::vector<std::int64_t>{0, 300, 1700};
    for (const std::int64_t head_dim : {48, 80})
        for (const std::int64_t queries : {40, 200, 600})
            for (const std::int64_t prefix : prefixes)
                for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
                    const Attention a{pass, true, queries, prefix + queries, 4, 2, head_dim};
                    errors.push_back(error(kernel_time({a, 1}, c), bench.time(a).median));
                }
    return error_of(std::move(errors));
}

PredictionError check_pointwise(KernelBench& bench, const Calibration& c, bool quick) {
    std::vector<double> errors;
    const std::vector<Bytes> sizes =
        quick ? std::vector<Bytes>{500_KiB} : std::vector<Bytes>{50_KiB, 400_KiB, 3_MiB, 24_MiB};
    using enum PointwiseKernel;
    const struct {
        PointwiseKernel timed;
        PointwiseKind kind;
    } kernels[] = {{kRmsNorm, PointwiseKind::kNorm},
                   {kSwiglu, PointwiseKind::kActivation},
                   {kResidual, PointwiseKind::kResidual},
                   {kCrossEntropy, PointwiseKind::kCrossEntropy},
                   {kAdamw, PointwiseKind::kAdamw}};
    for (const auto& [timed, kind] : kernels)
        for (const Bytes size : sizes) {
            const KernelBench::PointwiseTime t = bench.time(timed, size);
            const Kernel kernel{Pointwise{kind, t.traffic / t.calls}, static_cast<std::uint32_t>(t.calls)};
            errors.push_back(error(kernel_time(kernel, c), t.time.median));
        }
    return error_of(std::move(errors));
}

}  // namespace

PredictionError error_of(std::vector<double> errors) {
    if (errors.empty()) return {};
    PredictionError result;
    result.shapes = errors.size();
    std::sort(errors.begin(), errors.end());
    result.median = errors[errors.size() / 2];
    for (double& e : errors) e = std::abs(e);
    std::sort(errors.begin(), errors.end());
    result.median_absolute = errors[errors.size() / 2];
    result.p90_absolute = errors[errors.size() * 9 / 10];
    return result;
}

ProfileCheck check_profile(KernelBench& bench, const Calibration& whole, bool quick) {
    Architecture llama;  // for the norm and the activation that are timed
    llama.norm = Norm::kRmsNorm, llama.activation = ActivationFunction::kSwiglu;
    const Calibration calibration = calibration_of_model(whole, llama);
    return {check_gemm(bench, calibration, quick), check_attention(bench, calibration, quick),
            check_pointwise(bench, calibration, quick)};
}

}  // namespace sluice

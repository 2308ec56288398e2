#include "validation/fit_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format_units.h"
#include "scenarios/pointwise_kernel_names.h"
#include "schedule/op_class.h"
#include "validation/correct_rates.h"
#include "validation/fit_engines.h"
#include "validation/rate_lookup.h"

namespace sluice {
namespace {

constexpr double kSameRate = 0.001;  // relative: less is not called a change; files have four digits
constexpr std::size_t kMostNotes = 8;

double total_seconds(const ShapeTime& shape) { return shape.call.value * static_cast<double>(shape.calls); }

// The shapes of one part, with what a table makes their rates of.
struct Part {
    FittedPart report;
    std::vector<RateSample> samples;
    std::vector<double> work;  // of one call, by sample
    std::vector<double> calls;

    void add(const ShapeTime& shape, RateWeights at) {
        const double work_of_call = work_of(shape.shape);
        if (work_of_call <= 0 || shape.call.value <= 0) return;
        samples.push_back({std::move(at), work_of_call / shape.call.value, total_seconds(shape)});
        work.push_back(work_of_call);
        calls.push_back(static_cast<double>(shape.calls));
        ++report.shapes;
        report.samples += shape.samples;
    }

    // Relative error of the time of all calls, and the mean of its absolute value.
    std::pair<double, double> errors(const std::vector<double>& rates) const {
        double error = 0, absolute = 0, measured = 0;
        for (std::size_t i = 0; i < samples.size(); ++i) {
            const double time = calls[i] * work[i] / samples[i].rate;
            const double off = calls[i] * work[i] / rate_at(rates, samples[i].at) - time;
            error += off, absolute += std::abs(off), measured += time;
        }
        return {error / measured, absolute / measured};
    }

    // Corrects `rates`; `say(point)` is where a point stands and how a rate is written.
    template <class Where, class Format>
    void fit(std::vector<double>& rates, Where where, Format text) {
        if (samples.empty()) {
            report.left = "no shape has enough samples";
            return;
        }
        std::tie(report.error_before, report.spread_before) = errors(rates);
        const std::vector<double> before = rates;
        if (report.spread_before >= kSameRate) correct_rates(rates, samples);
        std::tie(report.error_after, report.spread_after) = errors(rates);
        for (std::size_t i = 0; i < rates.size(); ++i) {
            if (std::abs(rates[i] / before[i] - 1) < kSameRate)
                rates[i] = before[i];
            else
                report.points.push_back({where(i), text(before[i]), text(rates[i])});
        }
    }
};

std::string flop_rate(double rate) { return format(FlopsPerSecond{rate}); }
std::string byte_rate(double rate) { return format(BytesPerSecond{rate}); }

class Fitter {
public:
    Fitter(Fit& fit, const KernelSamples& samples) : fit_(fit), c_(fit.calibration), samples_(samples) {}

    void gemm() {
        Part part{{"gemm"}, {}, {}, {}};
        for (const ShapeTime& shape : samples_.shapes)
            if (const auto* g = std::get_if<Gemm>(&shape.shape)) part.add(shape, rate_weights(*g, c_.gemm));
        std::vector<double> rates;
        for (const GemmPoint& p : c_.gemm) rates.push_back(p.rate.value);
        part.fit(
            rates,
            [&](std::size_t i) {
                const GemmPoint& p = c_.gemm[i];
                return p.m == 0 ? fmt::format("size {}", p.size) : fmt::format("m {}, n {}, k {}", p.m, p.n, p.k);
            },
            flop_rate);
        for (std::size_t i = 0; i < rates.size(); ++i) c_.gemm[i].rate = FlopsPerSecond{rates[i]};
        fit_.parts.push_back(std::move(part.report));
    }

    void attention(Pass pass) {
        const auto rate = pass == Pass::kForward ? &AttentionPoint::forward : &AttentionPoint::backward;
        Part part{{pass == Pass::kForward ? "attention_forward" : "attention_backward"}, {}, {}, {}};
        for (const ShapeTime& shape : samples_.shapes)
            if (const auto* a = std::get_if<Attention>(&shape.shape); a != nullptr && a->pass == pass)
                part.add(shape, rate_weights(*a, c_.attention));
        std::vector<double> rates;
        for (const AttentionPoint& p : c_.attention) rates.push_back((p.*rate).value);
        part.fit(
            rates,
            [&](std::size_t i) {
                const AttentionPoint& p = c_.attention[i];
                return fmt::format("{}queries {}, keys {}",
                                   p.head_dim == 0 ? "" : fmt::format("head_dim {}, ", p.head_dim), p.queries, p.keys);
            },
            flop_rate);
        for (std::size_t i = rates.size(); i-- > 0;) {
            AttentionPoint& p = c_.attention[i];
            p.*rate = FlopsPerSecond{rates[i]};
            // What files leave out is as the first point that they have, which comes later.
            if (p.keys < p.queries && i + 1 < rates.size()) p.*rate = c_.attention[i + 1].*rate;
        }
        fit_.parts.push_back(std::move(part.report));
    }

    void pointwise() {
        for (const PointwiseKernelName& kernel : kPointwiseKernelNames) {
            Part part{{std::string(kernel.name)}, {}, {}, {}};
            for (const ShapeTime& shape : samples_.shapes)
                if (const auto* p = std::get_if<Pointwise>(&shape.shape);
                    p != nullptr && pointwise_kernel(p->kind) == kernel.kernel)
                    if (RateWeights at = rate_weights(*p, c_.pointwise_kernels); !at.empty())
                        part.add(shape, std::move(at));
            if (part.samples.empty()) continue;
            std::vector<double> rates;
            for (const PointwisePoint& p : c_.pointwise_kernels) rates.push_back(p.rate.value);
            part.fit(
                rates, [&](std::size_t i) { return "traffic " + format(c_.pointwise_kernels[i].traffic); }, byte_rate);
            for (std::size_t i = 0; i < rates.size(); ++i) c_.pointwise_kernels[i].rate = BytesPerSecond{rates[i]};
            fit_.parts.push_back(std::move(part.report));
        }
        other_pointwise();
    }

private:
    // One rate for all the rest: the one that makes their whole time right.
    void other_pointwise() {
        Part part{{"pointwise"}, {}, {}, {}};
        double traffic = 0, time = 0;
        for (const ShapeTime& shape : samples_.shapes) {
            const auto* p = std::get_if<Pointwise>(&shape.shape);
            if (p == nullptr || !rate_weights(*p, c_.pointwise_kernels).empty()) continue;
            part.add(shape, {{0, 1}});
        }
        for (std::size_t i = 0; i < part.samples.size(); ++i) {
            traffic += part.calls[i] * part.work[i];
            time += part.calls[i] * part.work[i] / part.samples[i].rate;
        }
        if (part.samples.empty()) {
            part.report.left = "no shape has enough samples";
        } else {
            const double rate = traffic / time;
            std::tie(part.report.error_before, part.report.spread_before) = part.errors({c_.pointwise.value});
            std::tie(part.report.error_after, part.report.spread_after) = part.errors({rate});
            if (std::abs(rate / c_.pointwise.value - 1) >= kSameRate) {
                part.report.points.push_back({"rate", byte_rate(c_.pointwise.value), byte_rate(rate)});
                c_.pointwise = BytesPerSecond{rate};
            }
        }
        fit_.parts.push_back(std::move(part.report));
    }

    Fit& fit_;
    Calibration& c_;
    const KernelSamples& samples_;
};

void add_notes(const KernelSamples& samples, std::vector<std::string>& notes) {
    std::vector<std::string> outliers;
    for (const ShapeTime& shape : samples.shapes)
        outliers.insert(outliers.end(), shape.outliers.begin(), shape.outliers.end());
    for (std::size_t i = 0; i < std::min(outliers.size(), kMostNotes); ++i)
        notes.push_back("outlier, not used: " + outliers[i]);
    if (outliers.size() > kMostNotes)
        notes.push_back(fmt::format("{} more outliers, not used", outliers.size() - kMostNotes));
    if (!samples.too_few.empty())
        notes.push_back(fmt::format("{} shapes have too few samples and were not used, the first a {}",
                                    samples.too_few.size(), op_class(samples.too_few.front().shape)));
    const auto corrected =
        std::count_if(samples.shapes.begin(), samples.shapes.end(), [](const ShapeTime& s) { return s.corrected; });
    if (corrected > 0)
        notes.push_back(
            fmt::format("{} of {} shapes ran beside copies or collectives too often: their times are corrected by "
                        "the calibration's interference",
                        corrected, samples.shapes.size()));
    if (samples.unlike > 0) notes.push_back(fmt::format("{} ops not used: {}", samples.unlike, samples.first_unlike));
    if (samples.without_kernels > 0)
        notes.push_back(fmt::format("{} compute ops without kernels in the trace, not used", samples.without_kernels));
}

// Which block of the file a part belongs to.
std::string_view block_of(std::string_view what) {
    if (what.starts_with("attention")) return "attention";
    for (const std::string_view key : {"gemm", "pointwise", "kernel_gap", "interference", "nvlink_collective"})
        if (what == key) return key;
    return "pointwise_kernels";
}

FileOrigin origin_of(const Calibration& before, const std::vector<FittedPart>& parts, const FitOptions& options) {
    FileOrigin origin;
    origin.comment = fmt::format(
        "Fitted by sluice fit: {} corrected by measured steps. Rates of memory-bound kernels are those of the "
        "model that was run.",
        before.name);
    origin.sources.push_back(
        {"before", fmt::format("calibration {}, as it was: its own file names the sources", before.name), {}});
    bool any = false;
    for (const FittedPart& part : parts) {
        if (part.points.empty()) continue;
        any = true;
        FileOrigin::Block& block = origin.blocks[std::string(block_of(part.what))];
        block.source = "[fit, before]";
        block.note +=
            fmt::format("{}{}: {} samples of {} shapes, {} point{} changed", block.note.empty() ? "" : "; ", part.what,
                        part.samples, part.shapes, part.points.size(), part.points.size() == 1 ? "" : "s");
    }
    if (any)
        origin.sources.push_back({"fit",
                                  fmt::format("measured{}{}: {}", options.date.empty() ? "" : " ", options.date,
                                              options.runs.empty() ? "not described" : options.runs),
                                  {}});
    return origin;
}

}  // namespace

Fit fit_calibration(const Calibration& before, std::span<const MeasuredRun> runs, const FitOptions& options) {
    SLUICE_CHECK(!runs.empty(), "a fit needs a measured step");
    Fit fit;
    fit.calibration = before;
    fit.calibration.name = options.name;
    if (before.power_limit.window.value > 0) {
        fit.calibration.power_limit = {};
        fit.notes.emplace_back(
            "power_limit is gone: what a GPU gained by waiting in these runs is in the fitted rates; runs that wait "
            "more "
            "or less are foretold less well");
    }
    const KernelSamples samples = kernel_samples(runs, before, options.least_samples);
    Fitter fitter(fit, samples);
    fitter.gemm();
    fitter.attention(Pass::kForward);
    fitter.attention(Pass::kBackward);
    fitter.pointwise();
    fit.parts.push_back(fit_kernel_gap(fit.calibration, samples, options.least_samples));
    fit.parts.push_back(fit_interference(fit.calibration, samples, runs, options.least_samples));
    fit.parts.push_back(fit_collectives(fit.calibration, runs, options.least_samples));
    fit.suggestions = link_rates(runs, options.least_samples);
    add_notes(samples, fit.notes);
    fit.origin = origin_of(before, fit.parts, options);
    return fit;
}

}  // namespace sluice

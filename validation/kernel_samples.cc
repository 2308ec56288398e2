#include "validation/kernel_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "schedule/op_class.h"
#include "validation/rate_lookup.h"

namespace sluice {
namespace {

constexpr double kAlone = 0.01;         // of an op's length: less beside it does not count
constexpr double kTouching = 1e-6;      // of all compute: less left open is rounding
constexpr double kLeastOfACall = 0.05;  // of a span, when launch gaps are taken off it
constexpr double kDeviations = 6, kRelative = 0.1;

// A shape as numbers, to be found again.
using ShapeKey = std::array<std::int64_t, 8>;
struct KeyOf {
    ShapeKey operator()(const Gemm& g) const { return {0, g.m, g.n, g.k, 0, 0, 0, 0}; }
    ShapeKey operator()(const Attention& a) const {
        return {1,         a.pass == Pass::kForward ? 0 : 1, a.causal ? 1 : 0, a.queries, a.keys, a.heads, a.kv_heads,
                a.head_dim};
    }
    ShapeKey operator()(const Pointwise& p) const {
        return {2, static_cast<std::int64_t>(p.kind), p.traffic.value, 0, 0, 0, 0, 0};
    }
};

using Interval = std::pair<Seconds, Seconds>;

// When the engines of a rank ran that slow its compute.
class Engines {
public:
    explicit Engines(const Trace& trace) {
        for (const TraceEvent& e : trace.events)
            if (const int engine = engine_of(trace.lanes[e.lane].role); engine >= 0)
                busy_[{trace.lanes[e.lane].rank, engine}].emplace_back(e.begin, e.end);
        for (auto& [key, intervals] : busy_) std::sort(intervals.begin(), intervals.end());
    }

    // Lanes do not overlap with themselves, so ends ascend as begins do.
    Seconds beside(Rank rank, int engine, const TraceEvent& e) const {
        const auto found = busy_.find({rank, engine});
        if (found == busy_.end()) return Seconds{0};
        const auto& intervals = found->second;
        auto at = std::partition_point(intervals.begin(), intervals.end(),
                                       [&](const Interval& i) { return i.second <= e.begin; });
        Seconds sum{};
        for (; at != intervals.end() && at->first < e.end; ++at)
            sum += std::min(at->second, e.end) - std::max(at->first, e.begin);
        return sum;
    }

private:
    static int engine_of(LaneRole role) {
        return role == LaneRole::kCopyOut ? 0 : role == LaneRole::kCopyIn ? 1 : role == LaneRole::kCollective ? 2 : -1;
    }
    std::map<std::pair<Rank, int>, std::vector<Interval>> busy_;
};

std::string unlike_text(const MeasuredRun& run, const Op& op, std::size_t got) {
    return fmt::format("op {} of {} has {} kernels in the schedule and {} in the trace, or of other classes",
                       index(op.id), run.name, std::get<Compute>(op.work).kernels.size(), got);
}

class Collector {
public:
    Collector(const Calibration& calibration, std::size_t least) : calibration_(calibration), least_(least) {}

    void add(const MeasuredRun& run, std::size_t number) {
        const Trace& trace = *run.trace;
        const Engines engines(trace);
        const std::size_t first = out_.ops.size();
        std::size_t k = 0;
        for (std::size_t i = 0; i < trace.events.size(); ++i) {
            const std::size_t begin = k;
            while (k < trace.kernels.size() && trace.kernels[k].event == i) ++k;
            const TraceEvent& e = trace.events[i];
            if (index(e.op) >= run.schedule->ops.size()) continue;
            const Op& op = run.schedule->ops[index(e.op)];
            if (!std::holds_alternative<Compute>(op.work)) continue;
            add_op(run, number, e, op, std::span(trace.kernels).subspan(begin, k - begin), engines);
        }
        Seconds open{}, all{};
        for (std::size_t i = first; i < out_.ops.size(); ++i) open += out_.ops[i].open, all += out_.ops[i].length;
        for (std::size_t i = first; i < out_.ops.size(); ++i) out_.ops[i].gaps_inside = open <= all * kTouching;
    }

    KernelSamples finish(std::span<const MeasuredRun> runs) {
        for (const ComputeSample& sample : out_.ops) add_calls(runs, sample);
        for (const ShapeKey& key : order_) {
            ShapeTime time = time_of(by_shape_[key], runs);
            (time.samples >= least_ ? out_.shapes : out_.too_few).push_back(std::move(time));
        }
        return std::move(out_);
    }

private:
    struct Call {
        double seconds, corrected;
        bool alone;
        std::size_t run;
        OpId op;
    };
    struct Calls {
        KernelShape shape;
        std::vector<Call> calls;
        std::uint64_t count = 0;
    };

    void add_op(const MeasuredRun& run, std::size_t number, const TraceEvent& e, const Op& op,
                std::span<const KernelSpan> spans, const Engines& engines) {
        const auto& kernels = std::get<Compute>(op.work).kernels;
        if (kernels.empty() && spans.empty()) return;
        if (spans.empty()) return void(++out_.without_kernels);
        const auto alike = [&](const KernelSpan& span, const Kernel& kernel) {
            return span.count == kernel.count && run.trace->labels[span.label] == op_class(kernel.shape);
        };
        if (!std::equal(spans.begin(), spans.end(), kernels.begin(), kernels.end(), alike)) {
            if (out_.unlike++ == 0) out_.first_unlike = unlike_text(run, op, spans.size());
            return;
        }
        ComputeSample sample;
        sample.run = number;
        sample.op = op.id;
        sample.length = e.end - e.begin;
        for (int engine = 0; engine < 3; ++engine)
            sample.beside[static_cast<std::size_t>(engine)] = engines.beside(op.rank, engine, e);
        Seconds covered{};
        for (const KernelSpan& span : spans) {
            sample.spans.push_back(span.end - span.begin);
            covered += sample.spans.back();
            sample.calls += span.count;
        }
        sample.open = std::max(sample.length - covered, Seconds{0});
        out_.ops.push_back(std::move(sample));
    }

    bool is_fused(const KernelShape& shape) const {
        const auto* p = std::get_if<Pointwise>(&shape);
        return p != nullptr && std::find(calibration_.fused.begin(), calibration_.fused.end(),
                                         pointwise_kernel(p->kind)) != calibration_.fused.end();
    }

    // The part of an op's length that it would have taken alone.
    double alone_share(const ComputeSample& s) const {
        const Interference& f = calibration_.interference;
        if (s.length.value <= 0) return 1;
        const Seconds lost =
            s.beside[0] * (1 - f.copy_out) + s.beside[1] * (1 - f.copy_in) + s.beside[2] * (1 - f.collective);
        return std::max(1 - lost / s.length, 0.1);
    }

    void add_calls(std::span<const MeasuredRun> runs, const ComputeSample& sample) {
        const auto& kernels = std::get<Compute>(runs[sample.run].schedule->ops[index(sample.op)].work).kernels;
        const Seconds beside = std::max({sample.beside[0], sample.beside[1], sample.beside[2]});
        const double share = alone_share(sample);
        for (std::size_t k = 0; k < kernels.size(); ++k) {
            if (is_fused(kernels[k].shape)) continue;
            const ShapeKey key = std::visit(KeyOf{}, kernels[k].shape);
            const auto [at, is_new] = by_shape_.try_emplace(key, Calls{kernels[k].shape, {}, 0});
            if (is_new) order_.push_back(key);
            const double span = sample.spans[k].value / kernels[k].count;
            const double gap = sample.gaps_inside ? calibration_.kernel_gap.value : 0;
            const auto without_gap = [&](double t) { return std::max(t - gap, kLeastOfACall * t); };
            at->second.calls.push_back({without_gap(span), without_gap(span * share), beside <= sample.length * kAlone,
                                        sample.run, sample.op});
            at->second.count += kernels[k].count;
        }
    }

    ShapeTime time_of(const Calls& calls, std::span<const MeasuredRun> runs) const {
        ShapeTime time{calls.shape, {}, 0, calls.count, false, {}};
        std::vector<Call> used;
        for (const Call& call : calls.calls)
            if (call.alone) used.push_back(call);
        if (used.size() < least_) used = calls.calls, time.corrected = true;
        std::vector<double> values;
        for (const Call& call : used) values.push_back(time.corrected ? call.corrected : call.seconds);
        const double middle = median(values);
        std::vector<double> deviations;
        for (const double value : values) deviations.push_back(std::abs(value - middle));
        const double far = std::max(kDeviations * median(deviations), kRelative * middle);
        std::vector<double> believed;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (std::abs(values[i] - middle) <= far)
                believed.push_back(values[i]);
            else
                time.outliers.push_back(fmt::format("{} in op {} of {}: {:.2f} times the median", op_class(calls.shape),
                                                    index(used[i].op), runs[used[i].run].name, values[i] / middle));
        }
        time.call = Seconds{median(believed)};
        time.samples = believed.size();
        return time;
    }

    const Calibration& calibration_;
    std::size_t least_;
    KernelSamples out_;
    std::map<ShapeKey, Calls> by_shape_;
    std::vector<ShapeKey> order_;
};

}  // namespace

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

KernelSamples kernel_samples(std::span<const MeasuredRun> runs, const Calibration& calibration, std::size_t least) {
    Collector collector(calibration, least);
    for (std::size_t i = 0; i < runs.size(); ++i) collector.add(runs[i], i);
    return collector.finish(runs);
}

}  // namespace sluice

#include "runtime/profile/gpu_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "runtime/profile/fill_short_rows.h"
#include "runtime/profile/message_tables.h"
#include "schedule/flops.h"

namespace sluice {
namespace {

constexpr double kSmallestBin = 512;
constexpr std::int64_t kKeysAtOnce = 131072;  // of a part of a backward call: models/rank_memory.h, kKvGradientChunk
constexpr Bytes kRoundings = 4_KiB;           // of the parts of a workspace, each to 256 bytes, and what is constant

double size_of(const Gemm& g) {
    return std::cbrt(static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k));
}

int bin_of(const Gemm& g) {
    return std::max(0, static_cast<int>(std::lround(2 * std::log2(size_of(g) / kSmallestBin))));
}

FlopsPerSecond rate_of(Attention a, Pass pass, const Measurement& time) {
    a.pass = pass;
    return flops(a) / time.median;
}

// The mean of both in the middle of an even number.
double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// What is left of a workspace without what the memory model counts in other terms.
double left(Bytes need, double counted) {
    return std::max(0.0, static_cast<double>((need - kRoundings).value) - counted);
}

// Of the backward pass, per head and query: sums of dO O, dQ's sums of the library, and where the keys go in several
// parts dQ of one of them and the sum of all (docs/cuda.md).
double per_query(std::int64_t head_dim, bool parts) {
    const auto d = static_cast<double>(head_dim);
    return 4 * (1 + d) + (parts ? 6 * d : 0);
}

Bytes mebibytes(Bytes b) { return Bytes{std::max<std::int64_t>(1, b.value >> 20) << 20}; }

}  // namespace

std::vector<GemmPoint> gemm_table(std::span<const ProductFigure> products) {
    SLUICE_CHECK(!products.empty(), "a table of products has rows");
    struct Bin {
        double log_sizes = 0;
        std::vector<double> rates;
    };
    std::map<int, Bin> bins;
    for (const ProductFigure& product : products) {
        Bin& bin = bins[bin_of(product.shape)];
        bin.log_sizes += std::log(size_of(product.shape));
        bin.rates.push_back((flops(product.shape) / product.mean()).value);
    }
    std::vector<GemmPoint> table;
    for (const auto& [number, bin] : bins) {
        const double size = std::round(std::exp(bin.log_sizes / static_cast<double>(bin.rates.size())));
        table.push_back({size, FlopsPerSecond{median_of(bin.rates)}});
    }
    return table;
}

std::vector<AttentionPoint> attention_table(std::span<const AttentionFigure> figures) {
    std::map<std::pair<std::int64_t, std::int64_t>, const AttentionFigure*> of;
    std::set<std::int64_t> queries, keys;
    for (const AttentionFigure& f : figures) {
        of[{f.shape.queries, f.shape.keys}] = &f;
        queries.insert(f.shape.queries), keys.insert(f.shape.keys);
    }
    std::vector<AttentionPoint> table;
    for (const std::int64_t q : queries) {
        const std::size_t row = table.size();
        for (const std::int64_t k : keys) {
            AttentionPoint point{q, k, {}, {}, 0};
            const auto found = of.find({q, k});
            SLUICE_CHECK(found != of.end() || k < q, "figures of attention form a full grid");
            if (found != of.end()) {
                const AttentionFigure& f = *found->second;
                point.forward = rate_of(f.shape, Pass::kForward, f.forward);
                point.backward = rate_of(f.shape, Pass::kBackward, f.backward);
            }
            table.push_back(point);
        }
        fill_short_rows(std::span(table).subspan(row));
    }
    return table;
}

std::vector<PointwisePoint> pointwise_table(std::span<const PointwiseFigure> figures) {
    std::vector<PointwisePoint> table;
    for (const PointwiseFigure& f : figures) {
        const PointwisePoint point{f.kernel, f.traffic / f.calls, f.rate()};
        const bool goes_on = !table.empty() && table.back().kernel == point.kernel;
        if (!goes_on || point.traffic > table.back().traffic) table.push_back(point);
    }
    return table;
}

AttentionWorkspace attention_workspace(std::span<const AttentionFigure> figures) {
    AttentionWorkspace bound;
    for (const AttentionFigure& f : figures) {
        const Attention& a = f.shape;
        const auto head_queries = static_cast<double>(a.heads * a.queries);
        const std::int64_t keys = std::min(a.keys, kKeysAtOnce);
        const double dkv = 4 * static_cast<double>(keys * a.kv_heads * a.head_dim);
        bound.forward = std::max(bound.forward, left(f.forward_workspace, 0) / head_queries);
        bound.backward = std::max(bound.backward, per_query(a.head_dim, true));
        const double rest = left(f.backward_workspace, dkv + head_queries * per_query(a.head_dim, a.keys > a.queries));
        if (a.kv_heads < a.heads)
            bound.grouped_backward = std::max(bound.grouped_backward, rest / static_cast<double>(a.heads * keys));
        else
            bound.backward = std::max(bound.backward, per_query(a.head_dim, true) + rest / head_queries);
    }
    return {std::ceil(bound.forward), std::ceil(bound.backward), std::ceil(bound.grouped_backward)};
}

namespace {

AttentionTiles attention_tiles(const GpuFigures& f) {
    if (f.attention_rows == 0 || f.attention.empty()) return {};
    return {f.attention_rows, f.attention_stretch,
            f.part.parts > 1 ? f.part.multiprocessors : f.machine.multiprocessors, f.attention.front().shape.heads};
}

}  // namespace

Calibration gpu_calibration(const GpuFigures& f, const std::string& name) {
    Calibration c;
    c.name = name;
    c.gemm = gemm_table(f.products);
    c.attention = attention_table(f.attention);
    c.pointwise_kernels = pointwise_table(f.pointwise);
    for (const PointwisePoint& point : c.pointwise_kernels)  // a plain pass, for kernels that the table does not have
        if (point.kernel == PointwiseKernel::kResidual) c.pointwise = point.rate;
    SLUICE_CHECK(c.pointwise.value > 0, "the residual sum is measured");
    c.fused = {PointwiseKernel::kAccumulate};
    c.kernel_gap = f.kernel_gap;
    c.gemm_workspace = kWorkspaceSlack;
    const AttentionWorkspace workspace = attention_workspace(f.attention);
    c.attention_forward_workspace = workspace.forward;
    c.attention_backward_workspace = workspace.backward;
    c.grouped_backward_workspace = workspace.grouped_backward;
    c.interference = {f.interference.copy_out, f.interference.copy_in, 1, f.part.memory_alone};
    c.attention_tiles = attention_tiles(f);
    c.power_limit = power_limit_of(f.power);
    c.collective_step = f.part.copy_latency;
    if (f.messages.gpus > 1) {
        const CollectiveTables tables = collective_tables(f.messages.alone, {});
        c.nvlink_collective = tables.inside;
        c.collective_call = tables.latency.call, c.collective_step = tables.latency.step;
        c.interference.collective = f.messages.product_beside;
    }
    return c;
}

namespace {

constexpr std::int64_t kCaches = 4;  // a call that moves so many L2 caches' worth finds next to nothing in it

// The fastest kernel whose operands come from the memory: those that the L2 may hold count only where there are no
// others.
BytesPerSecond fastest_from_memory(const GpuFigures& f) {
    BytesPerSecond large{0}, any{0};
    for (const PointwiseFigure& p : f.pointwise) {
        any = std::max(any, p.rate());
        if (p.traffic / p.calls >= f.machine.l2 * kCaches) large = std::max(large, p.rate());
    }
    return large.value > 0 ? large : any;
}

// A kernel that moves less than schedules count seems faster than the memory is.

BytesPerSecond at_most_peak(BytesPerSecond rate, const GpuMachine& m) {
    return m.memory_peak.value > 0 ? std::min(rate, m.memory_peak) : rate;
}

// What was measured of the kernels is a part's already, beside products of the others, which leave it more than its
// share of the memory's bandwidth: all parts together get at most the peak. Where that is not known, only what one part
// had when it was alone is.
BytesPerSecond memory_bandwidth_of_all_parts(const GpuFigures& f) {
    const double parts = f.machine.memory_peak.value > 0 ? f.part.parts : f.part.memory_alone;
    return at_most_peak(std::max(fastest_from_memory(f) * parts, f.part.copy * 2.0), f.machine);
}

void cut(Cluster& c, const GpuPartFigures& part) {
    c.gpus_per_node = c.gpu.parts = part.parts;
    c.gpu.name += fmt::format(" part of {} SMs", part.multiprocessors);
    c.gpu.memory = mebibytes(c.gpu.memory / part.parts);
    c.nvlink = {part.copy, part.copy_latency};
}

// Several GPUs of one host.
void join(Cluster& c, const GpuMessages& messages) {
    c.gpus_per_node = messages.gpus;
    c.gpu.reserved = round_up(c.gpu.reserved + messages.communicators, 1_MiB);
    if (const auto line = transfer_line(messages.alone, false)) c.nvlink = {line->bandwidth, line->latency};
    set_links(c, messages.links);
}

}  // namespace

Cluster gpu_cluster(const GpuFigures& f, const std::string& name) {
    const GpuMachine& m = f.machine;
    Cluster c;
    c.name = name;
    c.gpu.name = m.name;
    c.gpu.memory = mebibytes(m.memory);
    c.gpu.reserved = round_up(m.reserved, 1_MiB);
    c.gpu.reserved_per_token = m.reserved_per_token;
    c.gpu.reserved_per_pinned_gib = m.reserved_per_pinned_gib;
    for (const ProductFigure& p : f.products) c.gpu.peak = std::max(c.gpu.peak, flops(p.shape) / p.mean());
    c.gpu.memory_bandwidth =
        f.part.parts > 1 ? memory_bandwidth_of_all_parts(f) : at_most_peak(fastest_from_memory(f), m);
    SLUICE_CHECK(!f.copies.rates.empty(), "copies are measured");
    const GpuCopyRates& copies = f.copies.rates.back();
    c.pcie.d2h = c.pcie.switch_d2h = copies.out;
    c.pcie.h2d = c.pcie.switch_h2d = copies.in;
    c.pcie.duplex = std::min(copies.out_beside_in + copies.in_beside_out, copies.out + copies.in);
    c.pcie.latency = f.copies.start;
    c.host.memory = mebibytes(m.host.memory);
    c.host.reserved = mebibytes(m.host.memory / 16);
    c.host.bandwidth = c.pcie.duplex;
    c.host.pin_rate = f.copies.pin;
    if (f.part.parts > 1) cut(c, f.part);
    if (f.messages.gpus > 1) join(c, f.messages);
    return c;
}

}  // namespace sluice

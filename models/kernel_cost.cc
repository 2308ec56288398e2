#include "models/kernel_cost.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "models/log_interpolation.h"

namespace sluice {
namespace {

// Counts are turned into doubles before they are multiplied: the pairs of a 4M-token sequence do not fit 2^53 exactly,
// but int64 products of three dimensions could overflow.
double as_double(std::int64_t v) { return static_cast<double>(v); }

FlopsPerSecond gemm_rate(const Gemm& g, const std::vector<GemmPoint>& table) {
    SLUICE_CHECK(!table.empty(), "the calibration has no GEMM rates; reading one must refuse that");
    const double size = std::cbrt(as_double(g.m) * as_double(g.n) * as_double(g.k));
    const LogPosition at = log_position(size, table.size(), [&](std::size_t i) { return table[i].size; });
    return FlopsPerSecond{blend(table[at.low].rate.value, table[at.high].rate.value, at.weight)};
}

// The table is a full grid stored row by row: a row per number of queries, a column per number of keys.
FlopsPerSecond attention_rate(const Attention& a, const std::vector<AttentionPoint>& table) {
    SLUICE_CHECK(!table.empty(), "the calibration has no attention rates; reading one must refuse that");
    std::size_t columns = 1;
    while (columns < table.size() && table[columns].queries == table[0].queries) ++columns;
    SLUICE_CHECK(table.size() % columns == 0, "the attention points of a calibration form a full grid");
    const std::size_t rows = table.size() / columns;

    const LogPosition row =
        log_position(as_double(a.queries), rows, [&](std::size_t i) { return as_double(table[i * columns].queries); });
    const LogPosition column =
        log_position(as_double(a.keys), columns, [&](std::size_t i) { return as_double(table[i].keys); });
    const auto rate = [&](std::size_t r, std::size_t c) {
        const AttentionPoint& p = table[r * columns + c];
        return (a.pass == Pass::kForward ? p.forward : p.backward).value;
    };
    const double low = blend(rate(row.low, column.low), rate(row.low, column.high), column.weight);
    const double high = blend(rate(row.high, column.low), rate(row.high, column.high), column.weight);
    return FlopsPerSecond{blend(low, high, row.weight)};
}

// Work without operations takes no time even where a rate is 0 or absent.
Seconds time_of(Flops work, FlopsPerSecond rate) { return work.value == 0 ? Seconds{0} : work / rate; }

struct CallTime {
    const Calibration& calibration;

    Seconds operator()(const Gemm& g) const { return time_of(flops(g), gemm_rate(g, calibration.gemm)); }
    Seconds operator()(const Attention& a) const { return time_of(flops(a), attention_rate(a, calibration.attention)); }
    Seconds operator()(const Pointwise& p) const {
        SLUICE_CHECK(calibration.pointwise.value > 0, "the calibration has no rate of memory-bound kernels");
        return p.traffic / calibration.pointwise;
    }
};

struct ShapeFlops {
    Flops operator()(const Gemm& g) const { return flops(g); }
    Flops operator()(const Attention& a) const { return flops(a); }
    Flops operator()(const Pointwise&) const { return Flops{0}; }
};

struct OpClass {
    std::string_view operator()(const Gemm&) const { return "gemm"; }
    std::string_view operator()(const Attention& a) const {
        return a.pass == Pass::kForward ? "attention_forward" : "attention_backward";
    }
    std::string_view operator()(const Pointwise& p) const { return name(p.kind); }
};

}  // namespace

Flops flops(const Gemm& g) { return Flops{2 * as_double(g.m) * as_double(g.n) * as_double(g.k)}; }

Flops flops(const Attention& a) {
    const double queries = as_double(a.queries), keys = as_double(a.keys);
    const double pairs = a.causal ? queries * (keys - queries) + queries * (queries + 1) / 2 : queries * keys;
    const double per_pair = a.pass == Pass::kForward ? 4 : 10;
    return Flops{per_pair * as_double(a.head_dim) * as_double(a.heads) * pairs};
}

Flops flops(const KernelShape& shape) { return std::visit(ShapeFlops{}, shape); }

Seconds kernel_time(const Kernel& kernel, const Calibration& calibration) {
    const Seconds call = std::visit(CallTime{calibration}, kernel.shape) + calibration.kernel_gap;
    return call * static_cast<double>(kernel.count);
}

Seconds compute_time(const Compute& compute, const Calibration& calibration) {
    Seconds sum{0};
    for (const Kernel& kernel : compute.kernels) sum += kernel_time(kernel, calibration);
    return sum;
}

std::string_view op_class(const KernelShape& shape) { return std::visit(OpClass{}, shape); }

}  // namespace sluice

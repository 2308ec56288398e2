#include "schedule/flops.h"

#include <variant>

namespace sluice {
namespace {

// Counts are turned into doubles before they are multiplied: int64 products of three dimensions could overflow.
double as_double(std::int64_t v) { return static_cast<double>(v); }

struct ShapeFlops {
    Flops operator()(const Gemm& g) const { return flops(g); }
    Flops operator()(const Attention& a) const { return flops(a); }
    Flops operator()(const Pointwise&) const { return Flops{0}; }
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

}  // namespace sluice

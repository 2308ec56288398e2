// The least time of a step by the libraries' own rates: every product and every attention of the model that a
// scenario's step runs, each shape measured alone, times how often it comes. What is recomputed, pointwise kernels,
// copies and the optimizer count nothing.
//
//   cuda_floor_bench SCENARIO [SECONDS_EACH]
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <map>
#include <string_view>
#include <tuple>

#include "planner/lower.h"
#include "runtime/cuda/attention.h"
#include "runtime/cuda/library_rates.h"
#include "scenarios/scenario.h"
#include "schedule/flops.h"

namespace sluice {
namespace {

using cuda::GemmShape;
using cuda::ResultType;
using enum Transpose;

// Y = X W^T, dX = dY W, dW += dY^T X as the backend calls them; a schedule gives the last with the input first.
enum class Role : std::uint8_t { kForward, kLogits, kData, kWeight };
std::string_view name(Role role) {
    return std::array<std::string_view, 4>{"forward", "logits", "data gradient",
                                           "weight gradient"}[static_cast<std::size_t>(role)];
}

GemmShape shape_of(const Gemm& g, Role role) {
    switch (role) {
        case Role::kForward:
        case Role::kLogits:
            return {kNo,
                    kYes,
                    g.m,
                    g.n,
                    g.k,
                    g.k,
                    g.k,
                    g.n,
                    role == Role::kLogits ? ResultType::kFp32 : ResultType::kBf16,
                    Store::kOverwrite};
        case Role::kData:
            return {kNo, kNo, g.m, g.n, g.k, g.k, g.n, g.n, ResultType::kBf16, Store::kOverwrite};
        case Role::kWeight:
            break;
    }
    return {kYes, kNo, g.n, g.m, g.k, g.n, g.m, g.m, ResultType::kFp32, Store::kAdd};
}

struct Wanted {
    std::map<std::pair<Role, std::tuple<std::int64_t, std::int64_t, std::int64_t>>, std::int64_t> products;  // calls
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> attention;  // by queries, keys: forward calls
    Attention heads;
};

// The products of the loss follow each other as logits, data gradient, weight gradient.
Role role_of(const Op& op, const Gemm& g, std::size_t product, std::int64_t tokens) {
    if (op.tag.function == Function::kLoss) return std::array{Role::kLogits, Role::kData, Role::kWeight}[product % 3];
    if (op.tag.phase == Phase::kForward) return Role::kForward;
    return g.k == tokens ? Role::kWeight : Role::kData;
}

Wanted wanted_of(const Lowered& lowered) {
    Wanted wanted;
    for (const Op& op : lowered.schedule.ops) {
        const auto* compute = std::get_if<Compute>(&op.work);
        if (compute == nullptr || op.tag.phase == Phase::kRecompute || op.tag.phase == Phase::kOptimizer) continue;
        std::size_t products = 0;
        const std::int64_t tokens =
            lowered.plan.subsequences[static_cast<std::size_t>(op.tag.subsequence)].length.value;
        for (const Kernel& kernel : compute->kernels) {
            if (const auto* g = std::get_if<Gemm>(&kernel.shape))
                wanted.products[{role_of(op, *g, products++, tokens), {g->m, g->n, g->k}}] += kernel.count;
            const auto* a = std::get_if<Attention>(&kernel.shape);
            if (a == nullptr || a->pass != Pass::kForward) continue;
            wanted.attention[{a->queries, a->keys}] += kernel.count;
            wanted.heads = *a;
        }
    }
    return wanted;
}

struct Sum {
    Seconds time{};
    Flops flops{};
    void add(std::string_view what, std::int64_t calls, Seconds each, Flops of_each) {
        fmt::print(R"({{"what": "{}", "calls": {}, "seconds": {:.4g}, "tflops": {:.1f}}})"
                   "\n",
                   what, calls, each.value, of_each.value / each.value / 1e12);
        time += each * static_cast<double>(calls), flops += of_each * static_cast<double>(calls);
    }
};

void measure(const Wanted& wanted, Seconds each) {
    Sum products, forward, backward;
    for (const auto& [key, calls] : wanted.products) {
        const auto& [role, size] = key;
        const Gemm g{std::get<0>(size), std::get<1>(size), std::get<2>(size)};
        products.add(fmt::format("{} m {}, n {}, k {}", name(role), g.m, g.n, g.k), calls,
                     cuda::sustained_product(shape_of(g, role), each).call.each, flops(g));
    }
    for (const auto& [size, calls] : wanted.attention) {
        Attention a = wanted.heads;
        a.queries = size.first, a.keys = size.second;
        const cuda::AttentionRate rate = cuda::sustained_attention(
            {Tokens{a.keys - a.queries}, Tokens{a.queries}, a.heads, a.kv_heads, a.head_dim}, each);
        const auto what = [&](std::string_view pass) {
            return fmt::format("attention {} {} queries, {} keys", pass, a.queries, a.keys);
        };
        forward.add(what("forward"), calls, rate.forward.each, flops(a));
        a.pass = Pass::kBackward;
        backward.add(what("backward"), calls, rate.backward.each, flops(a));
    }
    for (const auto& [what, sum] : {std::pair{"products", products}, std::pair{"attention forward", forward},
                                    std::pair{"attention backward", backward}})
        fmt::print("{:<20} {:>9.3f} s {:>8.1f} TFLOP/s\n", what, sum.time.value,
                   sum.flops.value / sum.time.value / 1e12);
    fmt::print("{:<20} {:>9.3f} s\n", "floor", (products.time + forward.time + backward.time).value);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
    using namespace sluice;
    if (argc < 2) {
        fmt::print(stderr, "usage: cuda_floor_bench SCENARIO [SECONDS_EACH]\n");
        return 2;
    }
    try {
        const Lowered lowered = lower(read_scenario(argv[1]));
        if (!lowered.feasible()) {
            fmt::print(stderr, "{}: does not fit: {}\n", argv[1], lowered.reasons.front());
            return 1;
        }
        measure(wanted_of(lowered), Seconds{argc > 2 ? std::atof(argv[2]) : 0.3});
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 3;
    }
}

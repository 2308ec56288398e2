#include "runtime/profile/cpu_profile.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "base/error.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cpu/vocabulary_loss.h"
#include "runtime/profile/collective_bench.h"
#include "runtime/profile/compute_load.h"
#include "runtime/profile/fill_short_rows.h"
#include "runtime/profile/kernel_bench.h"
#include "runtime/profile/message_tables.h"

namespace sluice {
namespace {

// The shapes of the tables. Between their points rates are interpolated in the logarithm of every extent.
struct Grid {
    std::vector<std::int64_t> gemm, head_dims, queries, keys;
    std::vector<Bytes> traffic, messages;
};

Grid grid_of(bool quick) {
    if (quick) return {{16, 128, 512}, {32, 128}, {64, 512}, {64, 512, 2048}, {64_KiB, 2_MiB}, {64_KiB, 2_MiB}};
    return {{16, 64, 256, 1024, 4096},
            {16, 32, 64, 128},
            {16, 64, 128, 256, 1024, 4096},
            {16, 64, 128, 256, 1024, 4096, 8192},
            {16_KiB, 128_KiB, 1_MiB, 8_MiB, 64_MiB, 256_MiB},
            {16_KiB, 256_KiB, 4_MiB, 64_MiB}};
}

constexpr PointwiseKernel kPointwise[] = {PointwiseKernel::kLayerNorm, PointwiseKernel::kRmsNorm,
                                          PointwiseKernel::kRope,      PointwiseKernel::kGelu,
                                          PointwiseKernel::kSwiglu,    PointwiseKernel::kResidual,
                                          PointwiseKernel::kEmbedding, PointwiseKernel::kCrossEntropy,
                                          PointwiseKernel::kAdamw,     PointwiseKernel::kOther};

// Parts of the whole, by the time that they take.
struct Share {
    double begin, end;
};
constexpr Share kGemmShare{0, 0.35}, kAttentionShare{0.35, 0.72}, kPointwiseShare{0.72, 0.85};

struct Profiling {
    const ProfileRequest& request;
    const ProfileProgress& progress;
    Grid grid = grid_of(request.quick);
    KernelBench bench{request.quick ? MeasureEffort{Seconds{3e-4}, Seconds{2e-3}, 3, Seconds{0.05}} : MeasureEffort{}};
    CpuProfile out{};

    void show(std::string_view what, Share share, std::size_t done, std::size_t of) const {
        progress(what, share.begin + (share.end - share.begin) * static_cast<double>(done) / static_cast<double>(of));
    }

    void measure_gemm() {
        std::vector<double> spreads;
        const std::size_t side = grid.gemm.size(), all = side * side * side;
        for (const std::int64_t m : grid.gemm)
            for (const std::int64_t n : grid.gemm)
                for (const std::int64_t k : grid.gemm) {
                    show("matrix products", kGemmShare, spreads.size(), all);
                    const Measurement time = bench.time(Gemm{m, n, k});
                    const Flops work{2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)};
                    out.calibration.gemm.push_back({0, work / time.median, m, n, k});
                    spreads.push_back(time.spread());
                }
        out.gemm = spread_of(std::move(spreads));
    }

    // Two heads: kernels walk heads one by one, so that a call's time is proportional to them.
    FlopsPerSecond attention_rate(Pass pass, std::int64_t d, std::int64_t queries, std::int64_t keys,
                                  std::vector<double>& spreads) {
        constexpr std::int64_t kHeads = 2;
        const Measurement time = bench.time(Attention{pass, true, queries, keys, kHeads, kHeads, d});
        spreads.push_back(time.spread());
        const auto q = static_cast<double>(queries), k = static_cast<double>(keys);
        const double pairs = q * (k - q) + q * (q + 1) / 2, per_pair = pass == Pass::kForward ? 4 : 10;
        return Flops{per_pair * static_cast<double>(d * kHeads) * pairs} / time.median;
    }

    void measure_attention() {
        std::vector<double> spreads;
        std::vector<AttentionPoint>& points = out.calibration.attention;
        const std::size_t all = grid.head_dims.size() * grid.queries.size() * grid.keys.size();
        for (const std::int64_t d : grid.head_dims)
            for (const std::int64_t queries : grid.queries) {
                const std::size_t row = points.size();
                for (const std::int64_t keys : grid.keys) {
                    show("attention", kAttentionShare, points.size(), all);
                    AttentionPoint point{queries, keys, {}, {}, d};
                    if (keys >= queries) {
                        point.forward = attention_rate(Pass::kForward, d, queries, keys, spreads);
                        point.backward = attention_rate(Pass::kBackward, d, queries, keys, spreads);
                    }
                    points.push_back(point);
                }
                fill_short_rows(std::span(points).subspan(row));
            }
        out.attention = spread_of(std::move(spreads));
    }

    void measure_pointwise() {
        std::vector<double> spreads;
        const std::size_t all = std::size(kPointwise) * grid.traffic.size();
        for (const PointwiseKernel kernel : kPointwise) {
            for (const Bytes traffic : grid.traffic) {
                show("passes over memory", kPointwiseShare, spreads.size(), all);
                const KernelBench::PointwiseTime t = bench.time(kernel, traffic);
                spreads.push_back(t.time.spread());
                const PointwisePoint point{kernel, t.traffic / t.calls, t.traffic / t.time.median};
                auto& points = out.calibration.pointwise_kernels;
                const bool goes_on = !points.empty() && points.back().kernel == kernel;
                if (!goes_on || point.traffic > points.back().traffic) points.push_back(point);
                // of kernels that the table does not have (there are none): a plain pass
                if (kernel == PointwiseKernel::kResidual) out.calibration.pointwise = point.rate;
            }
        }
        out.pointwise = spread_of(std::move(spreads));
    }

    void measure_kernels() {
        const ComputeLoad others(static_cast<std::size_t>(request.ranks - 1));
        const auto wall = std::chrono::steady_clock::now();
        const Seconds begin = thread_time();
        measure_gemm();
        measure_attention();
        measure_pointwise();
        const Seconds passed{std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count()};
        out.core_share = std::min(1.0, (thread_time() - begin) / passed);
    }

    void measure_movement() {
        const CopyEffort effort = request.quick ? CopyEffort{1_MiB, 16_MiB, Seconds{0.02}} : CopyEffort{};
        const auto cores = static_cast<std::size_t>(out.machine.cores), ranks = static_cast<std::size_t>(request.ranks);
        progress("copies", 0.85);
        out.copies = copy_rates(cores, effort);
        progress("copies beside compute", 0.92);
        {
            const ComputeLoad others(ranks - 1);
            out.interference = copy_interference(cores, ranks, effort);
        }
        progress("collectives", 0.96);
        const CollectiveTables collectives = collective_tables(time_collectives(grid.messages, effort.each), {});
        Calibration& c = out.calibration;
        c.nvlink_collective = collectives.inside;
        c.collective_call = collectives.latency.call, c.collective_step = collectives.latency.step;
        c.interference = {out.interference.gemm, out.interference.gemm, out.interference.gemm};
        // An op's kernels follow one another in one thread, which reads the clock after each.
        c.kernel_gap = 2.0 * measure([] { static_cast<void>(std::chrono::steady_clock::now()); }, {}).median;
    }

    void describe_cluster() {
        Cluster& c = out.cluster;
        const Machine& m = out.machine;
        c.gpus_per_node = std::max(request.ranks, m.cores);
        const auto mebibytes = [](Bytes b) { return Bytes{std::max<std::int64_t>(1, b.value >> 20) << 20}; };
        c.gpu.name = m.cpu;
        c.gpu.memory = mebibytes(m.memory / 2 / c.gpus_per_node);
        c.gpu.peak = FlopsPerSecond{0};
        for (const GemmPoint& point : out.calibration.gemm) c.gpu.peak = std::max(c.gpu.peak, point.rate);
        c.gpu.memory_bandwidth = out.copies.one * 2;
        c.pcie.d2h = c.pcie.h2d = c.pcie.switch_d2h = c.pcie.switch_h2d = out.copies.one;
        c.pcie.duplex = std::min(out.copies.both, out.copies.one * 2);
        c.pcie.latency = out.copies.start;
        c.host.memory = mebibytes(m.memory / 2);
        c.host.reserved = mebibytes(m.memory / 8);
        c.host.bandwidth = std::max(out.copies.all_cores, out.copies.both);
        c.nvlink = {out.copies.one, out.calibration.collective_step};
    }
};

}  // namespace

Bytes cpu_kernel_workspace(std::int64_t sp, Tokens logits_chunk) {
    // Tiles are of fixed size: any shape of at least a tile has the largest ones.
    const AttentionShape large{Tokens{1 << 20}, Tokens{1 << 20}, 1, 1, 128};
    const Bytes loss{logits_chunk.value * (sp * static_cast<std::int64_t>(sizeof(LossPartial)) + 4)};
    return std::max({attention_forward_workspace(large), attention_backward_workspace(large), loss});
}

CpuProfile profile_cpu(const ProfileRequest& request, const ProfileProgress& progress) {
    SLUICE_CHECK(request.ranks >= 1, "somebody computes");
    Profiling profiling{request, progress};
    profiling.out.machine = this_machine();
    profiling.measure_kernels();
    profiling.measure_movement();
    profiling.describe_cluster();
    CpuProfile& out = profiling.out;
    out.calibration.name = out.cluster.name = request.name;
    out.calibration.fused = {PointwiseKernel::kAccumulate};
    out.calibration.gemm_workspace = round_up(cpu_kernel_workspace(8, Tokens{8192}), 64_KiB);
    progress("done", 1);
    return std::move(out);
}

}  // namespace sluice

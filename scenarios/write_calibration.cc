#include "scenarios/write_calibration.h"

#include <fmt/format.h>

#include <ostream>

#include "scenarios/pointwise_kernel_names.h"
#include "scenarios/yaml_text.h"

namespace sluice {
namespace {

std::string gflops(FlopsPerSecond rate) { return decimal(rate.value / 1e9); }
std::string gigabytes(BytesPerSecond rate) { return decimal(rate.value / 1e9); }

struct Writer {
    std::ostream& out;
    const Calibration& c;
    const FileOrigin& origin;

    void line(std::string_view text) const { out << text << '\n'; }

    template <class Points, class Row>
    void table(std::string_view key, std::string_view columns, const Points& points, Row row) const {
        line(fmt::format("{}:\n  columns: [{}]\n  rows:", key, columns));
        for (const auto& point : points)
            if (const std::string cells = row(point); !cells.empty()) line(fmt::format("    - [{}]", cells));
        line("  " + origin_text(origin, key, "\n  "));
    }

    void gemm() const {
        if (c.gemm.front().m == 0)
            return table("gemm", "size, rate (GFLOP/s)", c.gemm,
                         [](const GemmPoint& p) { return fmt::format("{}, {}", p.size, gflops(p.rate)); });
        table("gemm", "m, n, k, rate (GFLOP/s)", c.gemm,
              [](const GemmPoint& p) { return fmt::format("{}, {}, {}, {}", p.m, p.n, p.k, gflops(p.rate)); });
    }

    void attention() const {
        const bool by_head_dim = c.attention.front().head_dim > 0;
        const std::string columns = "queries (tokens), keys (tokens), forward (GFLOP/s), backward (GFLOP/s)";
        table("attention", (by_head_dim ? "head_dim, " : "") + columns, c.attention, [=](const AttentionPoint& p) {
            if (p.keys < p.queries) return std::string();
            const std::string cells =
                fmt::format("{}, {}, {}, {}", p.queries, p.keys, gflops(p.forward), gflops(p.backward));
            return by_head_dim ? fmt::format("{}, {}", p.head_dim, cells) : cells;
        });
    }

    void pointwise() const {
        flow("pointwise", fmt::format("rate: {}", yaml_quantity(c.pointwise)));
        if (!c.pointwise_kernels.empty())
            table("pointwise_kernels", "kernel, traffic (B), rate (GB/s)", c.pointwise_kernels,
                  [](const PointwisePoint& p) {
                      return fmt::format("{}, {}, {}", name(p.kernel), p.traffic.value, gigabytes(p.rate));
                  });
        std::string fused;
        for (const PointwiseKernel kernel : c.fused)
            fused += fmt::format("{}{}", fused.empty() ? "" : ", ", name(kernel));
        if (!fused.empty()) flow("fused", fmt::format("kernels: [{}]", fused));
    }

    void bandwidths(std::string_view key, const std::vector<BandwidthPoint>& points) const {
        if (points.empty()) return;
        table(key, "size (B), bus_bandwidth (GB/s)", points,
              [](const BandwidthPoint& p) { return fmt::format("{}, {}", p.size.value, gigabytes(p.bus_bandwidth)); });
    }

    void flow(std::string_view key, std::string_view numbers) const {
        line(fmt::format("{}: {{{}, {}}}", key, numbers, origin_text(origin, key, ", ")));
    }

    void rest() const {
        if (c.collective_call.value > 0)
            flow("collective_call", fmt::format("time: {}", yaml_quantity(c.collective_call)));
        flow("collective_step", fmt::format("time: {}", yaml_quantity(c.collective_step)));
        flow("gemm_workspace", fmt::format("bytes: {}", yaml_quantity(c.gemm_workspace)));
        const std::string grouped =
            c.grouped_backward_workspace == 0
                ? ""
                : fmt::format(", grouped_backward: {} B", decimal(c.grouped_backward_workspace));
        flow("attention_workspace",
             fmt::format("forward: {} B, backward: {} B{}", decimal(c.attention_forward_workspace),
                         decimal(c.attention_backward_workspace), grouped));
        const AttentionTiles& t = c.attention_tiles;
        if (t.multiprocessors > 0)
            flow("attention_tiles", fmt::format("rows: {} tokens, stretch: {} tokens, multiprocessors: {}, heads: {}",
                                                t.rows, t.stretch, t.multiprocessors, t.heads));
        const Interference& f = c.interference;
        const std::string gain = f.memory_alone == 1 ? "" : fmt::format(", memory_alone: {}", decimal(f.memory_alone));
        flow("interference", fmt::format("copy_out: {}, copy_in: {}, collective: {}{}", decimal(f.copy_out),
                                         decimal(f.copy_in), decimal(f.collective), gain));
        const PowerLimit& p = c.power_limit;
        if (p.window.value > 0)
            flow("power_limit",
                 fmt::format("gemm: {}, attention_forward: {}, attention_backward: {}, busy: {}, window: {}",
                             decimal(p.gemm), decimal(p.attention_forward), decimal(p.attention_backward),
                             decimal(p.busy), yaml_quantity(p.window)));
    }
};

}  // namespace

void write_calibration(std::ostream& out, const Calibration& calibration, const FileOrigin& origin) {
    const Writer writer{out, calibration, origin};
    out << file_head(calibration.name, origin);
    writer.gemm();
    writer.attention();
    writer.pointwise();
    writer.flow("kernel_gap", fmt::format("time: {}", yaml_quantity(calibration.kernel_gap)));
    writer.bandwidths("nvlink_collective", calibration.nvlink_collective);
    writer.bandwidths("network_collective", calibration.network_collective);
    writer.rest();
}

}  // namespace sluice

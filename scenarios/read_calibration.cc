#include "scenarios/read_calibration.h"

#include <fmt/format.h>

#include <vector>

#include "scenarios/quote.h"
#include "scenarios/read_kernel_rates.h"
#include "scenarios/sourced_block.h"
#include "scenarios/sourced_table.h"

namespace sluice {
namespace {

constexpr std::int64_t kLargestMessage = std::int64_t{1} << 50;
constexpr std::int64_t kMostParallel = 1 << 20;
constexpr Limits<Tokens> kTileLimits{Tokens{1}, Tokens{std::int64_t{1} << 30}, "1 token ... 1 Gi tokens"};
constexpr Limits<double> kGainLimits{1, 10, "1 ... 10"};
constexpr Limits<double> kPerQueryLimits{0, 1048576, "0 B ... 1 MiB"};

constexpr std::string_view kKeys[] = {"name",
                                      "sources",
                                      "gemm",
                                      "attention",
                                      "pointwise",
                                      "pointwise_kernels",
                                      "fused",
                                      "kernel_gap",
                                      "nvlink_collective",
                                      "network_collective",
                                      "collective_call",
                                      "collective_step",
                                      "gemm_workspace",
                                      "attention_workspace",
                                      "attention_tiles",
                                      "interference",
                                      "power_limit",
                                      "note"};
constexpr std::string_view kRateKeys[] = {"rate"};
constexpr std::string_view kTimeKeys[] = {"time"};
constexpr std::string_view kBytesKeys[] = {"bytes"};
constexpr std::string_view kAttentionWorkspaceKeys[] = {"forward", "backward", "grouped_backward"};
constexpr std::string_view kInterferenceKeys[] = {"copy_out", "copy_in", "collective", "memory_alone"};
constexpr std::string_view kAttentionTilesKeys[] = {"rows", "stretch", "multiprocessors", "heads"};
constexpr std::string_view kPowerLimitKeys[] = {"gemm", "attention_forward", "attention_backward", "busy", "window"};

constexpr TableColumn kBandwidthColumns[] = {{"size", true, Dimension::kBytes},
                                             {"bus_bandwidth", true, Dimension::kBytesPerSecond}};

std::vector<BandwidthPoint> read_bandwidths(const YamlField& field, SourceList& sources) {
    const SourcedTable table = read_table(field, sources, kBandwidthColumns);
    std::vector<BandwidthPoint> points;
    for (const auto& row : table.rows) {
        const Bytes size{read_whole_cell(row[0], table.units[0], Dimension::kBytes, kLargestMessage)};
        if (!points.empty() && size <= points.back().size)
            fail(row[0], fmt::format("got {}, expected sizes in ascending order", quote(read_text(row[0]))));
        points.push_back({size, read_byte_rate_cell(row[1], table.units[1])});
    }
    return points;
}

double read_factor(const SourcedBlock& block, std::string_view key) {
    const auto field = find_number(block, key);
    if (!field) return 1;
    const double factor = read_ratio(*field);
    if (factor == 0) fail(*field, fmt::format("got {}, expected above 0 and at most 1", quote(read_text(*field))));
    return factor;
}

double read_gain(const SourcedBlock& block, std::string_view key) {
    const auto field = find_number(block, key);
    if (!field) return 1;
    return read_number(*field, kGainLimits);
}

Interference read_interference(const SourcedBlock& block) {
    return {read_factor(block, "copy_out"), read_factor(block, "copy_in"), read_factor(block, "collective"),
            read_gain(block, "memory_alone")};
}

AttentionTiles read_attention_tiles(const SourcedBlock& block) {
    const auto tokens = [&](std::string_view key) { return read_tokens(get_number(block, key), kTileLimits).value; };
    const auto count = [&](std::string_view key) { return read_count(get_number(block, key), kMostParallel); };
    return {tokens("rows"), tokens("stretch"), count("multiprocessors"), count("heads")};
}

PowerLimit read_power_limit(const SourcedBlock& block) {
    PowerLimit p{read_gain(block, "gemm"), read_gain(block, "attention_forward"),
                 read_gain(block, "attention_backward"), 0, read_seconds(get_number(block, "window"))};
    const YamlField busy = get_number(block, "busy");
    p.busy = read_ratio(busy);
    if (p.busy >= 1) fail(busy, fmt::format("got {}, expected at least 0 and below 1", quote(read_text(busy))));
    if (p.window.value <= 0) fail(get_number(block, "window"), "got no time, expected a time above 0");
    return p;
}

}  // namespace

Calibration read_calibration(const YamlField& root, std::string_view name) {
    expect_keys(root, kKeys);
    if (const auto note = find(root, "note")) read_text(*note);
    SourceList sources = read_sources(root);
    const auto block = [&](std::string_view key, std::span<const std::string_view> keys) {
        return open_block(get(root, key), sources, keys);
    };
    const auto own_name = find(root, "name");
    Calibration c;
    c.name = own_name ? read_name(*own_name) : std::string(name);
    c.gemm = read_gemm(get(root, "gemm"), sources);
    c.attention = read_attention(get(root, "attention"), sources);
    c.pointwise = read_bytes_per_second(get_number(block("pointwise", kRateKeys), "rate"));
    if (const auto field = find(root, "pointwise_kernels"))
        c.pointwise_kernels = read_pointwise_kernels(*field, sources);
    if (const auto field = find(root, "fused")) c.fused = read_fused(*field, sources);
    c.kernel_gap = read_seconds(get_number(block("kernel_gap", kTimeKeys), "time"));
    if (const auto field = find(root, "nvlink_collective")) c.nvlink_collective = read_bandwidths(*field, sources);
    if (const auto field = find(root, "network_collective")) c.network_collective = read_bandwidths(*field, sources);
    if (find(root, "collective_call"))
        c.collective_call = read_seconds(get_number(block("collective_call", kTimeKeys), "time"));
    c.collective_step = read_seconds(get_number(block("collective_step", kTimeKeys), "time"));
    c.gemm_workspace = read_bytes(get_number(block("gemm_workspace", kBytesKeys), "bytes"), kReservedLimits);
    const SourcedBlock workspace = block("attention_workspace", kAttentionWorkspaceKeys);
    c.attention_forward_workspace = read_fractional_bytes(get_number(workspace, "forward"), kPerQueryLimits);
    c.attention_backward_workspace = read_fractional_bytes(get_number(workspace, "backward"), kPerQueryLimits);
    if (const auto grouped = find_number(workspace, "grouped_backward"))
        c.grouped_backward_workspace = read_fractional_bytes(*grouped, kPerQueryLimits);
    if (find(root, "attention_tiles"))
        c.attention_tiles = read_attention_tiles(block("attention_tiles", kAttentionTilesKeys));
    if (find(root, "interference")) c.interference = read_interference(block("interference", kInterferenceKeys));
    if (find(root, "power_limit")) c.power_limit = read_power_limit(block("power_limit", kPowerLimitKeys));
    expect_all_used(sources);
    return c;
}

}  // namespace sluice

#include "scenarios/read_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "scenarios/quote.h"
#include "scenarios/sourced_block.h"
#include "scenarios/sourced_table.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;
constexpr std::int64_t kLargestMessage = std::int64_t{1} << 50;
constexpr double kLargestGemm = 1e9;
constexpr Limits<double> kPerQueryLimits{0, 1048576, "0 B ... 1 MiB"};

constexpr std::string_view kKeys[] = {"name",
                                      "sources",
                                      "gemm",
                                      "attention",
                                      "pointwise",
                                      "kernel_gap",
                                      "nvlink_collective",
                                      "network_collective",
                                      "collective_step",
                                      "gemm_workspace",
                                      "attention_workspace",
                                      "interference",
                                      "note"};
constexpr std::string_view kRateKeys[] = {"rate"};
constexpr std::string_view kTimeKeys[] = {"time"};
constexpr std::string_view kBytesKeys[] = {"bytes"};
constexpr std::string_view kAttentionWorkspaceKeys[] = {"forward", "backward"};
constexpr std::string_view kInterferenceKeys[] = {"copy_out", "copy_in", "collective"};

constexpr TableColumn kGemmColumns[] = {{"size", false}, {"rate", true, Dimension::kFlopsPerSecond}};
constexpr TableColumn kAttentionColumns[] = {{"queries", true, Dimension::kTokens},
                                             {"keys", true, Dimension::kTokens},
                                             {"forward", true, Dimension::kFlopsPerSecond},
                                             {"backward", true, Dimension::kFlopsPerSecond}};
constexpr TableColumn kBandwidthColumns[] = {{"size", true, Dimension::kBytes},
                                             {"bus_bandwidth", true, Dimension::kBytesPerSecond}};

std::vector<GemmPoint> read_gemm(const YamlField& field, SourceList& sources) {
    const SourcedTable table = read_table(field, sources, kGemmColumns);
    std::vector<GemmPoint> points;
    for (const auto& row : table.rows) {
        const GemmPoint point{read_bare_cell(row[0]), read_flop_rate_cell(row[1], table.units[1])};
        if (point.size > kLargestGemm)
            fail(row[0], fmt::format("got {}, expected at most 1e9", quote(read_text(row[0]))));
        if (!points.empty() && point.size <= points.back().size)
            fail(row[0], fmt::format("got {}, expected sizes in ascending order", quote(read_text(row[0]))));
        points.push_back(point);
    }
    return points;
}

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

// The points of the file, by queries, then keys, keys >= queries.
std::vector<AttentionPoint> read_attention_points(const SourcedTable& table) {
    std::vector<AttentionPoint> points;
    for (const auto& row : table.rows) {
        const std::int64_t queries = read_whole_cell(row[0], table.units[0], Dimension::kTokens, kMostTokens);
        const std::int64_t keys = read_whole_cell(row[1], table.units[1], Dimension::kTokens, kMostTokens);
        if (keys < queries)
            fail(row[1], fmt::format("got {} keys for {} queries, expected at least as many keys", keys, queries));
        if (!points.empty()) {
            const AttentionPoint& last = points.back();
            if (queries < last.queries || (queries == last.queries && keys <= last.keys))
                fail(row[0], "expected rows in ascending order of queries, then keys");
        }
        points.push_back(
            {queries, keys, read_flop_rate_cell(row[2], table.units[2]), read_flop_rate_cell(row[3], table.units[3])});
    }
    return points;
}

// Completes the grid: keys below queries, which no causal call has, get the rates at the fewest keys given for these
// queries. Other holes are refused.
std::vector<AttentionPoint> read_attention(const YamlField& field, SourceList& sources) {
    const SourcedTable table = read_table(field, sources, kAttentionColumns);
    const std::vector<AttentionPoint> points = read_attention_points(table);
    std::vector<std::int64_t> keys;
    keys.reserve(points.size());
    for (const AttentionPoint& point : points) keys.push_back(point.keys);
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::vector<AttentionPoint> grid;
    for (std::size_t next = 0; next < points.size();) {
        const std::size_t first = next;
        const std::int64_t queries = points[first].queries;
        for (const std::int64_t wanted : keys) {
            const bool given = next < points.size() && points[next].queries == queries && points[next].keys == wanted;
            if (!given && wanted >= queries)
                fail(field, fmt::format("no row for {} queries and {} keys, expected a full grid", queries, wanted));
            grid.push_back(given ? points[next++] : points[first]);
            grid.back().keys = wanted;
        }
    }
    return grid;
}

double read_factor(const SourcedBlock& block, std::string_view key) {
    const auto field = find_number(block, key);
    if (!field) return 1;
    const double factor = read_ratio(*field);
    if (factor == 0) fail(*field, fmt::format("got {}, expected above 0 and at most 1", quote(read_text(*field))));
    return factor;
}

Interference read_interference(const SourcedBlock& block) {
    return {read_factor(block, "copy_out"), read_factor(block, "copy_in"), read_factor(block, "collective")};
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
    c.kernel_gap = read_seconds(get_number(block("kernel_gap", kTimeKeys), "time"));
    if (const auto field = find(root, "nvlink_collective")) c.nvlink_collective = read_bandwidths(*field, sources);
    if (const auto field = find(root, "network_collective")) c.network_collective = read_bandwidths(*field, sources);
    c.collective_step = read_seconds(get_number(block("collective_step", kTimeKeys), "time"));
    c.gemm_workspace = read_bytes(get_number(block("gemm_workspace", kBytesKeys), "bytes"), kReservedLimits);
    const SourcedBlock workspace = block("attention_workspace", kAttentionWorkspaceKeys);
    c.attention_forward_workspace = read_fractional_bytes(get_number(workspace, "forward"), kPerQueryLimits);
    c.attention_backward_workspace = read_fractional_bytes(get_number(workspace, "backward"), kPerQueryLimits);
    if (find(root, "interference")) c.interference = read_interference(block("interference", kInterferenceKeys));
    expect_all_used(sources);
    return c;
}

}  // namespace sluice

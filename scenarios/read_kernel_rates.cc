#include "scenarios/read_kernel_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "scenarios/pointwise_kernel_names.h"
#include "scenarios/quote.h"
#include "scenarios/sourced_table.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;
constexpr std::int64_t kLargestTraffic = std::int64_t{1} << 50;
constexpr double kLargestGemm = 1e9;

constexpr TableColumn kGemmColumns[] = {{"size", false}, {"rate", true, Dimension::kFlopsPerSecond}};
constexpr TableColumn kGemmShapeColumns[] = {
    {"m", false}, {"n", false}, {"k", false}, {"rate", true, Dimension::kFlopsPerSecond}};
constexpr TableColumn kAttentionColumns[] = {{"queries", true, Dimension::kTokens},
                                             {"keys", true, Dimension::kTokens},
                                             {"forward", true, Dimension::kFlopsPerSecond},
                                             {"backward", true, Dimension::kFlopsPerSecond},
                                             {"head_dim", false}};
constexpr TableColumn kPointwiseColumns[] = {
    {"kernel", false}, {"traffic", true, Dimension::kBytes}, {"rate", true, Dimension::kBytesPerSecond}};

bool has_column(const YamlField& table, std::string_view name) {
    const auto headings = find(table, "columns");
    if (!headings || headings->node->kind != YamlKind::kSequence) return false;  // read_table says what is wrong
    for (const YamlField& heading : items(*headings))
        if (heading.node->kind == YamlKind::kScalar && read_text(heading) == name) return true;
    return false;
}

// A whole number without a unit, 1 ... 10^9.
std::int64_t read_count_cell(const YamlField& cell) {
    return read_count(cell, static_cast<std::int64_t>(kLargestGemm));
}

std::vector<GemmPoint> read_gemm_by_size(const YamlField& field, SourceList& sources) {
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

// Every combination of the values that each dimension has, once, in order: checked row by row against the combination
// that has to come.
void expect_gemm_grid(const YamlField& field, const std::vector<GemmPoint>& points) {
    const auto values_of = [&](std::int64_t GemmPoint::*dimension) {
        std::vector<std::int64_t> values;
        for (const GemmPoint& point : points) values.push_back(point.*dimension);
        std::sort(values.begin(), values.end());
        values.erase(std::unique(values.begin(), values.end()), values.end());
        return values;
    };
    const auto ms = values_of(&GemmPoint::m), ns = values_of(&GemmPoint::n), ks = values_of(&GemmPoint::k);
    std::size_t next = 0;
    for (const std::int64_t m : ms)
        for (const std::int64_t n : ns)
            for (const std::int64_t k : ks) {
                const bool there =
                    next < points.size() && points[next].m == m && points[next].n == n && points[next].k == k;
                if (!there)
                    fail(field, fmt::format("no row for m {}, n {}, k {} where one has to stand, expected a full grid "
                                            "in ascending order of m, then n, then k",
                                            m, n, k));
                ++next;
            }
    if (next != points.size()) fail(field, "has a combination of m, n and k twice, expected each once");
}

std::vector<GemmPoint> read_gemm_by_shape(const YamlField& field, SourceList& sources) {
    const SourcedTable table = read_table(field, sources, kGemmShapeColumns);
    std::vector<GemmPoint> points;
    for (const auto& row : table.rows)
        points.push_back({0, read_flop_rate_cell(row[3], table.units[3]), read_count_cell(row[0]),
                          read_count_cell(row[1]), read_count_cell(row[2])});
    expect_gemm_grid(field, points);
    return points;
}

// The points of the file, by head_dim (0 where the table has none), queries, then keys, keys >= queries.
std::vector<AttentionPoint> read_attention_points(const SourcedTable& table, bool by_head_dim) {
    const auto order = [](const AttentionPoint& p) { return std::tuple(p.head_dim, p.queries, p.keys); };
    std::vector<AttentionPoint> points;
    for (const auto& row : table.rows) {
        const std::int64_t queries = read_whole_cell(row[0], table.units[0], Dimension::kTokens, kMostTokens);
        const std::int64_t keys = read_whole_cell(row[1], table.units[1], Dimension::kTokens, kMostTokens);
        if (keys < queries)
            fail(row[1], fmt::format("got {} keys for {} queries, expected at least as many keys", keys, queries));
        const AttentionPoint point{queries, keys, read_flop_rate_cell(row[2], table.units[2]),
                                   read_flop_rate_cell(row[3], table.units[3]),
                                   by_head_dim ? read_count_cell(row[4]) : 0};
        if (!points.empty() && order(point) <= order(points.back()))
            fail(row[0], fmt::format("expected rows in ascending order of {}queries, then keys",
                                     by_head_dim ? "head_dim, then " : ""));
        points.push_back(point);
    }
    return points;
}

bool same_row(const AttentionPoint& a, const AttentionPoint& b) {
    return a.head_dim == b.head_dim && a.queries == b.queries;
}

// Completes the grid of every head_dim: keys below queries, which no causal call has, get the rates at the fewest keys
// given for these queries. Other holes are refused.
std::vector<AttentionPoint> complete_grid(const YamlField& field, const std::vector<AttentionPoint>& points) {
    std::vector<std::int64_t> keys;
    keys.reserve(points.size());
    for (const AttentionPoint& point : points) keys.push_back(point.keys);
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::vector<AttentionPoint> grid;
    for (std::size_t next = 0; next < points.size();) {
        const AttentionPoint& first = points[next];
        for (const std::int64_t wanted : keys) {
            const bool given = next < points.size() && same_row(points[next], first) && points[next].keys == wanted;
            if (!given && wanted >= first.queries)
                fail(field,
                     fmt::format("no row for {} queries and {} keys, expected a full grid", first.queries, wanted));
            grid.push_back(given ? points[next++] : first);
            grid.back().keys = wanted;
        }
    }
    return grid;
}

// Every head_dim has the queries of the first.
void expect_same_queries(const YamlField& field, const std::vector<AttentionPoint>& grid) {
    std::map<std::int64_t, std::vector<std::int64_t>> queries;  // by head_dim
    for (const AttentionPoint& point : grid) queries[point.head_dim].push_back(point.queries);
    for (const auto& [head_dim, its] : queries)
        if (its != queries.begin()->second)
            fail(field, fmt::format("head_dim {} has other queries than head_dim {}, expected the same for all",
                                    head_dim, queries.begin()->first));
}

template <std::size_t N>
PointwiseKernel read_kernel(const YamlField& field, const PointwiseKernelName (&names)[N]) {
    std::array<std::string_view, N> known;
    for (std::size_t i = 0; i < N; ++i) {
        known[i] = names[i].name;
        if (names[i].name == read_text(field)) return names[i].kernel;
    }
    refuse_choice(field, known, {}, {});
}

}  // namespace

std::vector<GemmPoint> read_gemm(const YamlField& field, SourceList& sources) {
    return has_column(field, "m") ? read_gemm_by_shape(field, sources) : read_gemm_by_size(field, sources);
}

std::vector<AttentionPoint> read_attention(const YamlField& field, SourceList& sources) {
    const bool by_head_dim = has_column(field, "head_dim");
    const auto columns = std::span(kAttentionColumns).first(by_head_dim ? 5U : 4U);
    const SourcedTable table = read_table(field, sources, columns);
    std::vector<AttentionPoint> grid = complete_grid(field, read_attention_points(table, by_head_dim));
    expect_same_queries(field, grid);
    return grid;
}

std::vector<PointwisePoint> read_pointwise_kernels(const YamlField& field, SourceList& sources) {
    const SourcedTable table = read_table(field, sources, kPointwiseColumns);
    std::vector<PointwisePoint> points;
    for (const auto& row : table.rows) {
        const PointwisePoint point{read_kernel(row[0], kPointwiseKernelNames),
                                   Bytes{read_whole_cell(row[1], table.units[1], Dimension::kBytes, kLargestTraffic)},
                                   read_byte_rate_cell(row[2], table.units[2])};
        const auto of_kernel = [&](const PointwisePoint& p) { return p.kernel == point.kernel; };
        const bool goes_on = !points.empty() && points.back().kernel == point.kernel;
        if (!goes_on && std::any_of(points.begin(), points.end(), of_kernel))
            fail(row[0], fmt::format("got {} again, expected its rows in one piece", quote(read_text(row[0]))));
        if (goes_on && point.traffic <= points.back().traffic)
            fail(row[1],
                 fmt::format("got {}, expected the traffic of a kernel in ascending order", quote(read_text(row[1]))));
        points.push_back(point);
    }
    return points;
}

std::vector<PointwiseKernel> read_fused(const YamlField& field, SourceList& sources) {
    static constexpr std::string_view kKeys[] = {"kernels"};
    const SourcedBlock block = open_block(field, sources, kKeys);
    if (!block.has_source) fail(field, "has no source, expected a key \"source\"");
    std::vector<PointwiseKernel> fused;
    for (const YamlField& item : items(get(field, "kernels"))) {
        const PointwiseKernel kernel = read_kernel(item, kPointwiseKernelNames);
        if (std::find(fused.begin(), fused.end(), kernel) != fused.end())
            fail(item, fmt::format("{} is given twice", quote(read_text(item))));
        fused.push_back(kernel);
    }
    return fused;
}

}  // namespace sluice

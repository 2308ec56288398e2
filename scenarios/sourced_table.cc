#include "scenarios/sourced_table.h"

#include <fmt/format.h>

#include <optional>

#include "base/nearest_name.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

constexpr std::size_t kMostRows = 4096;

struct Heading {
    std::string_view name, unit;
};

// "forward (TFLOP/s)" -> forward, TFLOP/s; "size" -> size, "".
Heading split_heading(const YamlField& field) {
    const std::string_view text = read_text(field);
    const std::size_t open = text.find(" (");
    if (open == std::string_view::npos || !text.ends_with(')')) return {text, ""};
    return {text.substr(0, open), text.substr(open + 2, text.size() - open - 3)};
}

std::string expected_headings(std::span<const TableColumn> columns) {
    std::string text;
    for (const TableColumn& column : columns)
        text += fmt::format("{}{}{}", text.empty() ? "" : ", ", column.name, column.has_unit ? " (UNIT)" : "");
    return text;
}

void check_unit(const YamlField& field, const TableColumn& column, std::string_view unit) {
    if (!column.has_unit && !unit.empty()) fail(field, fmt::format("got a unit, expected \"{}\" alone", column.name));
    if (!column.has_unit) return;
    if (unit.empty()) fail(field, fmt::format("got no unit, expected \"{} (UNIT)\"", column.name));
    if (const std::string error = unit_error(unit, column.dimension); !error.empty()) fail(field, error);
}

// Where each asked column stands in the file's rows.
struct Layout {
    std::vector<std::optional<std::size_t>> at;
    std::vector<std::string> units;
    std::optional<std::size_t> source;
    std::size_t width = 0;
};

Layout read_layout(const YamlField& headings, std::span<const TableColumn> columns) {
    Layout layout{
        std::vector<std::optional<std::size_t>>(columns.size()), std::vector<std::string>(columns.size()), {}, 0};
    for (const YamlField& field : items(headings)) {
        const auto [name, unit] = split_heading(field);
        std::optional<std::size_t>* slot = name == "source" && unit.empty() ? &layout.source : nullptr;
        for (std::size_t i = 0; i < columns.size(); ++i) {
            if (columns[i].name != name) continue;
            check_unit(field, columns[i], unit);
            layout.units[i] = unit;
            slot = &layout.at[i];
        }
        if (slot == nullptr)
            fail(field, fmt::format("unknown column {}, expected {}", quote(name), expected_headings(columns)));
        if (slot->has_value()) fail(field, fmt::format("column {} is given twice", quote(name)));
        *slot = layout.width++;
    }
    for (std::size_t i = 0; i < columns.size(); ++i)
        if (!layout.at[i])
            fail(headings,
                 fmt::format("missing column \"{}\", expected {}", columns[i].name, expected_headings(columns)));
    return layout;
}

double above_zero(const YamlField& cell, double value) {
    if (!(value > 0)) fail(cell, fmt::format("got {}, expected a number above 0", quote(read_text(cell))));
    return value;
}

double read_real_cell(const YamlField& cell, const std::string& unit, Dimension dimension) {
    const Parsed<double> parsed = parse_number_in(read_text(cell), unit, dimension);
    if (!parsed.error.empty()) fail(cell, parsed.error);
    return above_zero(cell, parsed.value);
}

}  // namespace

SourcedTable read_table(const YamlField& field, SourceList& sources, std::span<const TableColumn> columns) {
    static constexpr std::string_view kKeys[] = {"columns", "rows"};
    const SourcedBlock block = open_block(field, sources, kKeys);
    Layout layout = read_layout(get(field, "columns"), columns);
    if (!block.has_source && !layout.source)
        fail(field, "has no source, expected a key \"source\" or a column \"source\"");
    const YamlField rows = get(field, "rows");
    SourcedTable table{std::move(layout.units), {}};
    for (const YamlField& row : items(rows)) {
        if (table.rows.size() == kMostRows) fail(rows, fmt::format("more than the limit of {} rows", kMostRows));
        const std::vector<YamlField> cells = items(row);
        if (cells.size() != layout.width)
            fail(row, fmt::format("got {} cells, expected {}, one per column", cells.size(), layout.width));
        if (layout.source) use_source(cells[*layout.source], sources);
        std::vector<YamlField>& ordered = table.rows.emplace_back();
        for (const auto& at : layout.at) ordered.push_back(cells[*at]);
    }
    return table;
}

double read_bare_cell(const YamlField& cell) {
    const Parsed<double> parsed = parse_number(read_text(cell));
    if (!parsed.error.empty()) fail(cell, parsed.error);
    return above_zero(cell, parsed.value);
}

std::int64_t read_whole_cell(const YamlField& cell, const std::string& unit, Dimension dimension, std::int64_t most) {
    const Parsed<std::int64_t> parsed = parse_whole_in(read_text(cell), unit, dimension);
    if (!parsed.error.empty()) fail(cell, parsed.error);
    if (parsed.value < 1 || parsed.value > most)
        fail(cell, fmt::format("got {}, expected above 0 and at most {} {}",
                               quote(fmt::format("{} {}", read_text(cell), unit)), most,
                               dimension == Dimension::kTokens ? "tokens" : "B"));
    return parsed.value;
}

BytesPerSecond read_byte_rate_cell(const YamlField& cell, const std::string& unit) {
    const BytesPerSecond rate{read_real_cell(cell, unit, Dimension::kBytesPerSecond)};
    expect_rate(cell, rate);
    return rate;
}

FlopsPerSecond read_flop_rate_cell(const YamlField& cell, const std::string& unit) {
    const FlopsPerSecond rate{read_real_cell(cell, unit, Dimension::kFlopsPerSecond)};
    expect_rate(cell, rate);
    return rate;
}

}  // namespace sluice

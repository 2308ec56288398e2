// Tables of numbers with a unit per column. docs/scenarios.md, "Calibration". Private to scenarios/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/quantity.h"
#include "scenarios/sourced_block.h"
#include "scenarios/yaml_field.h"

namespace sluice {

struct TableColumn {
    std::string_view name;
    bool has_unit = true;  // else a bare number
    Dimension dimension = Dimension::kBytes;
};

// Rows in file order, cells in the order of the columns that were asked for, whatever the file's order is.
struct SourcedTable {
    std::vector<std::string> units;  // per column, "" where it has none
    std::vector<std::vector<YamlField>> rows;
};

// Every column once; every row a cell for each; every row with a source.
SourcedTable read_table(const YamlField& field, SourceList& sources, std::span<const TableColumn> columns);

// Cells, above 0.
double read_bare_cell(const YamlField& cell);
std::int64_t read_whole_cell(const YamlField& cell, const std::string& unit, Dimension dimension, std::int64_t most);
BytesPerSecond read_byte_rate_cell(const YamlField& cell, const std::string& unit);
FlopsPerSecond read_flop_rate_cell(const YamlField& cell, const std::string& unit);

}  // namespace sluice

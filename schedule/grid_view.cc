#include "schedule/grid_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/schedule_text.h"
#include "schedule/unit_time_run.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxListed = 50;  // diagnostics below the grid

using Row = std::pair<Rank, Lane>;

struct Grid {
    std::map<Row, std::vector<OpId>> rows;     // the ops of each shown lane, as listed
    std::vector<std::uint32_t> start;          // by op
    std::vector<bool> marked;                  // by op
    std::size_t steps = 0;                     // of the whole run
    std::size_t first_step = 0, end_step = 0;  // shown
    std::size_t ranks = 0, hidden_ranks = 0;
};

char letter(Phase phase) {
    switch (phase) {
        case Phase::kForward:
            return 'F';
        case Phase::kBackward:
            return 'B';
        case Phase::kInputGrad:
            return 'D';
        case Phase::kWeightGrad:
            return 'W';
        case Phase::kRecompute:
            return 'R';
        case Phase::kOptimizer:
            return 'O';
    }
    return '?';
}

// "F3", of a multiplexed part "F3.1", of an op that a diagnostic names "F3!".
std::string cell(const Op& op, bool marked) {
    std::string text(1, letter(op.tag.phase));
    if (op.tag.subsequence != -1) text += fmt::format("{}", op.tag.subsequence);
    if (op.tag.part != -1) text += fmt::format(".{}", op.tag.part);
    if (marked) text += '!';
    return text;
}

std::string row_label(const Row& row) {
    std::string text = fmt::format("r{} {}", static_cast<std::uint32_t>(row.first), name(row.second.kind));
    if (row.second.peer != kNoRank) text += fmt::format(" r{}", static_cast<std::uint32_t>(row.second.peer));
    return text;
}

// The ranks of marked ops first, since they are what one looks for, then the lowest.
std::set<Rank> shown_ranks(const Schedule& schedule, Grid& grid, std::size_t limit) {
    std::set<Rank> all, shown;
    for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
        const Rank rank = schedule.ops[i].rank;
        all.insert(rank);
        if (grid.marked[i] && shown.size() < limit) shown.insert(rank);
    }
    for (const Rank rank : all) {
        if (shown.size() >= limit) break;
        shown.insert(rank);
    }
    grid.ranks = all.size();
    grid.hidden_ranks = all.size() - shown.size();
    return shown;
}

// The first steps, or those around the first marked op when it comes later.
void choose_steps(Grid& grid, std::size_t limit) {
    std::uint32_t first_marked = kNeverStarts;
    for (std::size_t i = 0; i < grid.start.size(); ++i) {
        if (grid.start[i] == kNeverStarts) continue;
        grid.steps = std::max<std::size_t>(grid.steps, grid.start[i] + 1);
        if (grid.marked[i]) first_marked = std::min(first_marked, grid.start[i]);
    }
    if (first_marked != kNeverStarts && first_marked >= limit) grid.first_step = first_marked - limit / 2;
    grid.first_step = std::min(grid.first_step, grid.steps - std::min(grid.steps, limit));
    grid.end_step = std::min(grid.steps, grid.first_step + limit);
}

Grid lay_out(const Schedule& schedule, const Diagnostics& diagnostics, const GridOptions& options) {
    Grid grid;
    grid.start = unit_time_run(schedule);
    grid.marked.resize(schedule.ops.size());
    for (const Diagnostic& diagnostic : diagnostics)
        if (index(diagnostic.op) < grid.marked.size()) grid.marked[index(diagnostic.op)] = true;
    const std::set<Rank> ranks = shown_ranks(schedule, grid, options.max_ranks);
    choose_steps(grid, options.max_columns);
    for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
        const Op& op = schedule.ops[i];
        if (ranks.contains(op.rank)) grid.rows[{op.rank, op.lane}].push_back(id_at<OpId>(i));
    }
    return grid;
}

struct Widths {
    std::size_t label = 4, cell = 1;
};

Widths widths(const Schedule& schedule, const Grid& grid) {
    Widths w;
    for (const auto& [row, ops] : grid.rows) {
        w.label = std::max(w.label, row_label(row).size());
        for (const OpId op : ops)
            w.cell = std::max(w.cell, cell(schedule.ops[index(op)], grid.marked[index(op)]).size());
    }
    return w;
}

void trim(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

// Every fifth step is numbered.
std::string ruler(const Grid& grid, const Widths& w) {
    std::string line = fmt::format("{:<{}}", "step", w.label);
    for (std::size_t step = grid.first_step; step < grid.end_step; ++step) {
        const std::size_t column = w.label + 1 + (step - grid.first_step) * (w.cell + 1);
        if (step % 5 != 0 || line.size() >= column) continue;
        line.resize(column, ' ');
        line += fmt::format("{}", step);
    }
    return line;
}

std::string row_line(const Schedule& schedule, const Grid& grid, const Widths& w, const Row& row,
                     const std::vector<OpId>& ops, std::size_t max_blocked) {
    std::vector<std::string> steps(grid.end_step - grid.first_step, ".");
    std::vector<std::string> blocked;
    for (const OpId op : ops) {
        const std::uint32_t start = grid.start[index(op)];
        const auto text = [&] { return cell(schedule.ops[index(op)], grid.marked[index(op)]); };
        if (start == kNeverStarts) {
            if (blocked.size() < max_blocked) blocked.push_back(text());
        } else if (start >= grid.first_step && start < grid.end_step) {
            steps[start - grid.first_step] = text();
        }
    }
    std::string line = fmt::format("{:<{}}", row_label(row), w.label);
    for (const std::string& step : steps) line += fmt::format(" {:<{}}", step, w.cell);
    if (!blocked.empty()) line += " |";
    for (const std::string& op : blocked) line += fmt::format(" {:<{}}", op, w.cell);
    trim(line);
    return line;
}

std::string notes(const Schedule& schedule, const Grid& grid) {
    std::string text;
    if (grid.hidden_ranks > 0)
        text += fmt::format("cut: {} of {} ranks shown\n", grid.ranks - grid.hidden_ranks, grid.ranks);
    if (grid.end_step - grid.first_step < grid.steps)
        text += fmt::format("cut: steps {} to {} of {} shown\n", grid.first_step, grid.end_step - 1, grid.steps);
    const auto blocked = std::count(grid.start.begin(), grid.start.end(), kNeverStarts);
    if (blocked > 0)
        text += fmt::format("{} of {} ops never start: after '|', as listed\n", blocked, schedule.ops.size());
    return text;
}

std::string listed(const Schedule& schedule, const Diagnostics& diagnostics) {
    std::string text;
    for (std::size_t i = 0; i < std::min(diagnostics.size(), kMaxListed); ++i) {
        const Diagnostic& d = diagnostics[i];
        text += fmt::format("! {}: {}\n", d.rule, d.message);
        if (index(d.op) < schedule.ops.size()) text += fmt::format("    {}\n", to_text(schedule.ops[index(d.op)]));
    }
    if (diagnostics.size() > kMaxListed) text += fmt::format("! and {} more\n", diagnostics.size() - kMaxListed);
    return text;
}

}  // namespace

std::string grid_view(const Schedule& schedule, const Diagnostics& diagnostics, const GridOptions& options) {
    const Grid grid = lay_out(schedule, diagnostics, options);
    const Widths w = widths(schedule, grid);
    std::string text = ruler(grid, w) + '\n';
    for (const auto& [row, ops] : grid.rows) text += row_line(schedule, grid, w, row, ops, options.max_columns) + '\n';
    return text + notes(schedule, grid) + listed(schedule, diagnostics);
}

}  // namespace sluice

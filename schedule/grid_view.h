// A schedule as a picture in text: ranks x lanes against issue slots, for `sluice show --grid`.
#pragma once

#include <string>

#include "base/diagnostic.h"
#include "schedule/schedule.h"

namespace sluice {

struct GridOptions {
    std::size_t max_columns = 160;  // steps; longer runs are cut, and say so
    std::size_t max_ranks = 32;     // likewise
};

// One row per (rank, lane) that has ops; a column per step of an idealised run in which every op takes one step and
// starts as early as rules 1-3 allow (unit_time_run.h). A cell is the phase's letter (F forward, B backward, D input
// grad, W weight grad, R recompute, O optimizer), the subsequence and after a point the multiplexed part: F3, B3, F0.1.
// Ops that never start follow after a '|' in the order listed. Ops named by a diagnostic are marked '!', kept in sight
// when the grid is cut, and listed below it with their messages. Safe for any schedule.
std::string grid_view(const Schedule& schedule, const Diagnostics& diagnostics, const GridOptions& options = {});

}  // namespace sluice

// A schedule as a picture in text: ranks x lanes against issue slots, for `sluice show --grid`.
#pragma once

#include <string>

#include "base/diagnostic.h"
#include "schedule/schedule.h"

namespace sluice {

struct GridOptions {
    std::size_t max_columns = 160;  // wider grids are cut, and say so
    std::size_t max_ranks = 32;     // likewise
};

// One row per (rank, lane) that has ops; a column per step of an idealised run in which every op takes one slot and
// starts as early as rules 1-3 allow; cells like F3 B3 (phase letter and subsequence), blocked ops in the order listed.
// Ops named by a diagnostic are marked '!' and listed below the grid with their messages.
std::string grid_view(const Schedule& schedule, const Diagnostics& diagnostics, const GridOptions& options = {});

}  // namespace sluice

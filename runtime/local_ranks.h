// The ranks that a process runs itself.
#pragma once

#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice {

// Ascending.
std::vector<Rank> all_ranks(const Schedule&);

}  // namespace sluice

// A schedule whose reloads are listed earlier than the planner lists them, for tests.
#pragma once

#include <cstddef>

#include "schedule/schedule.h"

namespace sluice {

// Lists every copy in where the one `ahead` before it on its rank was listed, but behind the copy out that it brings
// back, and places memory anew. Requires: one rank, offloaded units only (no K and V on the host).
Schedule deeper_prefetch(const Schedule& schedule, std::size_t ahead);

}  // namespace sluice

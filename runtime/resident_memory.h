// How much of the host's memory this process holds.
#pragma once

#include "base/units.h"

namespace sluice {

// Resident pages, all of the process; 0 where the system does not say (no /proc).
Bytes resident_memory();

}  // namespace sluice

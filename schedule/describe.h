// How messages name things of a schedule. Safe for any values.
#pragma once

#include <string>

#include "schedule/schedule.h"

namespace sluice {

std::string describe(const Op& op);          // "op 12 (rank 3, send to 4)"
std::string describe(const Tag& tag);        // "forward stage 0 layer 2 sub 1"
std::string describe(const Buffer& buffer);  // "buffer 7 (rank 0, device activation)"

}  // namespace sluice

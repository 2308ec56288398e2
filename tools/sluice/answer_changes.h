// What `sluice plan` adds when nothing fits: the smallest single changes that would.
#pragma once

#include <string>
#include <vector>

#include "planner/smallest_change.h"

namespace sluice {

std::string changes_text(const std::vector<Change>&);
std::string changes_json(const std::vector<Change>&);  // a list

}  // namespace sluice

// Private to scenarios/: the calibration part of docs/scenarios.md.
#pragma once

#include <string_view>

#include "scenarios/calibration.h"
#include "scenarios/yaml_field.h"

namespace sluice {

// `name` is used where the file gives none.
Calibration read_calibration(const YamlField& root, std::string_view name);

}  // namespace sluice

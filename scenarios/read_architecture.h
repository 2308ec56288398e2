// Private to scenarios/: the architecture part of docs/scenarios.md.
#pragma once

#include <string_view>

#include "scenarios/architecture.h"
#include "scenarios/yaml_field.h"

namespace sluice {

// `name` is used where the file gives none.
Architecture read_architecture(const YamlField& root, std::string_view name);

}  // namespace sluice

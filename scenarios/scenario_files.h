// Where a scenario's named files are: docs/scenarios.md, first section. Private to scenarios/.
#pragma once

#include <filesystem>
#include <string_view>

#include "scenarios/yaml_field.h"

namespace sluice {

// The file `subfolder`/NAME.yaml for the name in `field`, in `folder` or else in the installed scenarios folder. Throws
// InputError with a suggestion when neither has it.
std::filesystem::path find_named_file(const YamlField& field, std::string_view subfolder,
                                      const std::filesystem::path& folder);

}  // namespace sluice

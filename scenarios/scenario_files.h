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

// `model` ends in this: it names a Hugging Face config, by a path, and not a file of ours.
inline constexpr std::string_view kHfConfigExtension = ".json";

// The file at the path in `field`: from `folder`, or else in its architectures/ or in the installed ones; or absolute.
// Throws InputError with a suggestion when there is none.
std::filesystem::path find_hf_config(const YamlField& field, const std::filesystem::path& folder);

}  // namespace sluice

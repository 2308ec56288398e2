// A model's shape from a Hugging Face config.json: docs/scenarios.md, "Hugging Face configs". Private to scenarios/.
#pragma once

#include <string_view>

#include "scenarios/architecture.h"

namespace sluice {

// The families llama, mistral, qwen2, qwen3, gpt2 and gpt_neox. Keys that change neither shape nor cost are passed
// over, as are those that only other families have; what the cost models lack is refused by name (hf_unsupported.h).
// Throws InputError "origin:line:col: key: got, expected".
Architecture parse_hf_config(std::string_view text, std::string_view origin, std::string_view name);

}  // namespace sluice

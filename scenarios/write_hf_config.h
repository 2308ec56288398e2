// A model's shape as the config.json that Hugging Face loads its weights with.
#pragma once

#include <string>

#include "base/units.h"
#include "scenarios/architecture.h"

namespace sluice {

// Of the family whose names runtime/parameter_layout.h gives the parameters: LlamaForCausalLM for RMSNorm or SwiGLU,
// GPTNeoXForCausalLM (without parallel residual) for rotated positions with LayerNorm, else GPT2LMHeadModel.
// `positions`: the longest sequence. Empty where no family has such a model (a mixture of theirs, or GPT-2 with grouped
// queries).
std::string hf_config_text(const Architecture&, Tokens positions);

}  // namespace sluice

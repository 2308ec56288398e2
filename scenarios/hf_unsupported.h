// What Hugging Face configs ask for and our models of cost and memory do not have. Refused by name: a config whose
// extra layers were passed over would be priced as another model. Private to scenarios/.
#pragma once

#include <string_view>

#include "scenarios/yaml_field.h"

namespace sluice {

// What a `model_type` needs that is not supported: "mixture of experts"; "" for types not known here.
std::string_view unsupported_model_type(std::string_view model_type);

// Throws InputError when a key asks for something that is not supported. A key that is off asks for nothing: null,
// false, 0, "", an empty list or object.
void expect_supported_keys(const YamlField& config);

// Throws InputError "key: got VALUE, but FEATURE is not supported, expected ...".
[[noreturn]] void refuse_feature(const YamlField& field, std::string_view feature, std::string_view expected);

}  // namespace sluice

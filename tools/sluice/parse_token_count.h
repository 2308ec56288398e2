// `--tokens 300B`: as people count tokens of a training run.
#pragma once

#include <optional>
#include <string_view>

#include "base/units.h"
#include "scenarios/quantity.h"

namespace sluice {

// "300B", "1.5T", "500M": decimal multiples, exact; or a quantity as in scenarios, "4 Gi tokens". 1 ... 10^18 tokens.
Parsed<Tokens> parse_token_count(std::string_view text);

// The value of a verb's option --tokens; none when it was not given. Throws InputError with what is wrong.
std::optional<Tokens> token_count(std::string_view verb, std::string_view text);

}  // namespace sluice

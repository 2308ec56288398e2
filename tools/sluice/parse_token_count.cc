#include "tools/sluice/parse_token_count.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"

namespace sluice {
namespace {

constexpr Tokens kMost{1'000'000'000'000'000'000};

// Decimal multiples of tokens, written as the exponent that the scenario reader understands.
std::string_view exponent_of(char suffix) {
    switch (suffix) {
        case 'M':
            return "e6";
        case 'B':
            return "e9";
        case 'T':
            return "e12";
        default:
            return "";
    }
}

}  // namespace

Parsed<Tokens> parse_token_count(std::string_view text) {
    const std::string_view exponent = text.empty() ? "" : exponent_of(text.back());
    std::string quantity(text);
    if (!exponent.empty()) quantity = fmt::format("{}{} tokens", text.substr(0, text.size() - 1), exponent);
    Parsed<Tokens> parsed = parse_tokens(quantity);
    if (parsed.error.empty() && parsed.value > Tokens{0} && parsed.value <= kMost) return parsed;
    return {{},
            fmt::format("got '{}', expected a number of tokens such as 500M, 300B, 1.5T (10^6, 10^9, 10^12) or '4 Gi "
                        "tokens', 1 to 10^18",
                        text)};
}

std::optional<Tokens> token_count(std::string_view verb, std::string_view text) {
    if (text.empty()) return std::nullopt;
    const Parsed<Tokens> parsed = parse_token_count(text);
    if (!parsed.error.empty()) throw InputError(fmt::format("sluice {}: --tokens: {}", verb, parsed.error));
    return parsed.value;
}

}  // namespace sluice

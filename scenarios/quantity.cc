#include "scenarios/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "scenarios/quote.h"

namespace sluice {
namespace {

// A unit is times * 10^exp10 * 2^exp2 base units; one of the two exponents is 0. `times` is 1 but for minutes and longer.
struct Unit {
    std::string_view name;
    Dimension dimension;
    int exp10 = 0, exp2 = 0;
    int times = 1;
};

using enum Dimension;
constexpr std::array kUnits{
    Unit{"B", kBytes},
    Unit{"KiB", kBytes, 0, 10},
    Unit{"MiB", kBytes, 0, 20},
    Unit{"GiB", kBytes, 0, 30},
    Unit{"TiB", kBytes, 0, 40},
    Unit{"PiB", kBytes, 0, 50},
    Unit{"kB", kBytes, 3},
    Unit{"MB", kBytes, 6},
    Unit{"GB", kBytes, 9},
    Unit{"TB", kBytes, 12},
    Unit{"PB", kBytes, 15},
    Unit{"tokens", kTokens},
    Unit{"token", kTokens},
    Unit{"Ki tokens", kTokens, 0, 10},
    Unit{"Mi tokens", kTokens, 0, 20},
    Unit{"Gi tokens", kTokens, 0, 30},
    Unit{"sequences", kSequences},
    Unit{"sequence", kSequences},
    Unit{"ns", kSeconds, -9},
    Unit{"us", kSeconds, -6},
    Unit{"ms", kSeconds, -3},
    Unit{"s", kSeconds},
    Unit{"min", kDuration, 0, 0, 60},
    Unit{"h", kDuration, 0, 0, 3600},
    Unit{"days", kDuration, 0, 0, 86400},
    Unit{"B/s", kBytesPerSecond},
    Unit{"kB/s", kBytesPerSecond, 3},
    Unit{"MB/s", kBytesPerSecond, 6},
    Unit{"GB/s", kBytesPerSecond, 9},
    Unit{"TB/s", kBytesPerSecond, 12},
    Unit{"KiB/s", kBytesPerSecond, 0, 10},
    Unit{"MiB/s", kBytesPerSecond, 0, 20},
    Unit{"GiB/s", kBytesPerSecond, 0, 30},
    Unit{"TiB/s", kBytesPerSecond, 0, 40},
    Unit{"FLOP/s", kFlopsPerSecond},
    Unit{"MFLOP/s", kFlopsPerSecond, 6},
    Unit{"GFLOP/s", kFlopsPerSecond, 9},
    Unit{"TFLOP/s", kFlopsPerSecond, 12},
    Unit{"PFLOP/s", kFlopsPerSecond, 15},
};

// How a dimension is named in messages, with an example that can be copied.
struct DimensionText {
    std::string_view name, wanted, example;
};
constexpr DimensionText text_of(Dimension dimension) {
    switch (dimension) {
        case kBytes:
            return {"bytes", "bytes", "80 GiB"};
        case kTokens:
            return {"tokens", "tokens", "4 Mi tokens"};
        case kSequences:
            return {"sequences", "sequences", "1 sequence"};
        case kSeconds:
            return {"time", "a time", "5 us"};
        case kDuration:
            return {"time", "a time", "30 min"};
        case kBytesPerSecond:
            return {"bytes per second", "bytes per second", "25 GB/s"};
        case kFlopsPerSecond:
            return {"FLOP per second", "FLOP per second", "312 TFLOP/s"};
    }
    return {};
}

// Short units are good for durations, long ones for nothing else.
bool measures(const Unit& unit, Dimension dimension) {
    return unit.dimension == dimension || (dimension == kDuration && unit.dimension == kSeconds);
}

std::string units_of(Dimension dimension) {
    std::string names;
    for (const Unit& unit : kUnits)
        if (measures(unit, dimension)) names += fmt::format("{}{}", names.empty() ? "" : ", ", unit.name);
    return names;
}

// Hints for units that people write and that are refused.
struct Hint {
    std::string_view unit, text;
};
constexpr std::array kHints{
    Hint{"K tokens", "K is 1000 to some and 1024 to others; write Ki tokens for 1024"},
    Hint{"k tokens", "k is 1000 to some and 1024 to others; write Ki tokens for 1024"},
    Hint{"M tokens", "M is 10^6 to some and 2^20 to others; write Mi tokens for 2^20"},
    Hint{"G tokens", "G is 10^9 to some and 2^30 to others; write Gi tokens for 2^30"},
    Hint{"KB", "write kB for 1000 bytes, KiB for 1024"},
    Hint{"KB/s", "write kB/s for 1000 bytes per second, KiB/s for 1024"},
    Hint{"Gbps", "bits are not accepted; 200 Gbps is 25 GB/s"},
    Hint{"Gb/s", "bits are not accepted; 200 Gb/s is 25 GB/s"},
    Hint{"Gbit/s", "bits are not accepted; 200 Gbit/s is 25 GB/s"},
    Hint{"Mb/s", "bits are not accepted; 8 Mb/s is 1 MB/s"},
    Hint{"Mbit/s", "bits are not accepted; 8 Mbit/s is 1 MB/s"},
    Hint{"GBps", "did you mean GB/s?"},
    Hint{"GiBps", "did you mean GiB/s?"},
    Hint{"TFLOPS", "did you mean TFLOP/s?"},
    Hint{"TFLOPs", "did you mean TFLOP/s?"},
    Hint{"TFLOPS/s", "did you mean TFLOP/s?"},
    Hint{"GFLOPS", "did you mean GFLOP/s?"},
    Hint{"PFLOPS", "did you mean PFLOP/s?"},
    Hint{"tok", "did you mean tokens?"},
    Hint{"sec", "did you mean s?"},
    Hint{"seconds", "did you mean s?"},
    Hint{"usec", "did you mean us?"},
    Hint{"\xc2\xb5s", "write us"},  // the micro sign
    Hint{"\xce\xbcs", "write us"},  // the Greek letter
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

std::string_view trim(std::string_view text) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

// The length of the number that `text` starts with: digits, a point and digits, an exponent; 0 when there is none.
std::size_t number_length(std::string_view text) {
    std::size_t i = 0;
    const auto digits = [&] {
        const std::size_t from = i;
        while (i < text.size() && is_digit(text[i])) ++i;
        return i - from;
    };
    if (digits() == 0) return 0;
    if (i + 1 < text.size() && text[i] == '.' && is_digit(text[i + 1])) ++i, digits();
    const std::size_t mantissa = i;
    if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
        ++i;
        if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
        if (digits() == 0) i = mantissa;
    }
    return i;
}

// A decimal as written: significand * 10^exponent. Nothing when it has more significant digits than 64 bits hold.
struct Decimal {
    std::uint64_t significand = 0;
    std::int64_t exponent = 0;
};
constexpr std::int64_t kFarExponent = 1'000'000;  // beyond any number that is accepted
std::optional<Decimal> to_decimal(std::string_view number) {
    const std::size_t mantissa = std::min(number.find_first_of("eE"), number.size());
    std::string digits(number.substr(0, mantissa));
    Decimal decimal;
    if (const std::size_t point = digits.find('.'); point != std::string::npos) {
        digits.erase(point, 1);
        decimal.exponent = -static_cast<std::int64_t>(digits.size() - point);
    }
    while (digits.size() > 1 && digits.ends_with('0')) digits.pop_back(), ++decimal.exponent;
    const char* const end = digits.data() + digits.size();
    if (std::from_chars(digits.data(), end, decimal.significand).ec != std::errc{}) return std::nullopt;
    if (mantissa == number.size()) return decimal;
    std::string_view exponent = number.substr(mantissa + 1);
    if (exponent.front() == '+') exponent.remove_prefix(1);
    std::int64_t written = 0;
    if (std::from_chars(exponent.data(), exponent.data() + exponent.size(), written).ec != std::errc{})
        written = exponent.front() == '-' ? -kFarExponent : kFarExponent;
    decimal.exponent += std::clamp(written, -kFarExponent, kFarExponent);
    return decimal;
}

constexpr std::string_view kTooManyDigits = "which has more digits than 64 bits hold";

std::string with_unit(std::string_view number, const Unit& unit) {
    return fmt::format("{}{}{}", number, unit.name.empty() ? "" : " ", unit.name);
}

// decimal * unit as a whole number, exactly. Divides out the 2s and 5s that a negative exponent asks for.
Parsed<std::int64_t> whole(std::string_view number, const Unit& unit, std::string_view thing) {
    const auto refuse = [&](std::string_view why) {
        return Parsed<std::int64_t>{0, fmt::format("got {}, {}", quote(with_unit(number, unit)), why)};
    };
    constexpr std::string_view kTooLarge = "which does not fit in 63 bits";
    const std::optional<Decimal> decimal = to_decimal(number);
    if (!decimal) return refuse(kTooManyDigits);
    std::uint64_t value = decimal->significand;
    if (value == 0) return {};
    std::uint64_t factor = std::uint64_t{1} << unit.exp2;
    std::int64_t exponent = decimal->exponent + unit.exp10;
    if (exponent > 19) return refuse(kTooLarge);
    for (; exponent < 0; ++exponent) {
        for (const std::uint64_t prime : {std::uint64_t{2}, std::uint64_t{5}}) {
            if (value % prime == 0)
                value /= prime;
            else if (factor % prime == 0)
                factor /= prime;
            else
                return refuse(fmt::format("expected a whole number{}", thing));
        }
    }
    for (; exponent > 0; --exponent)
        if (__builtin_mul_overflow(value, std::uint64_t{10}, &value)) return refuse(kTooLarge);
    if (__builtin_mul_overflow(value, factor, &value) || value > static_cast<std::uint64_t>(INT64_MAX))
        return refuse(kTooLarge);
    return {static_cast<std::int64_t>(value), ""};
}

// The nearest double to number * 10^exp10 * 2^exp2. Decimal units go into the exponent, so that "5 us" is 5e-6 exactly.
Parsed<double> real(std::string_view number, const Unit& unit) {
    const auto refuse = [&](std::string_view why) {
        return Parsed<double>{0, fmt::format("got {}, {}", quote(with_unit(number, unit)), why)};
    };
    std::string text(number);
    if (unit.exp10 != 0) {
        const std::optional<Decimal> decimal = to_decimal(number);
        if (!decimal) return refuse(kTooManyDigits);
        text = fmt::format("{}e{}", decimal->significand, decimal->exponent + unit.exp10);
    }
    double value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec == std::errc{}) value = std::ldexp(value, unit.exp2) * unit.times;
    if (result.ec != std::errc{} || !std::isfinite(value)) return refuse("which is out of range");
    return {value, ""};
}

const Unit* find_unit(std::string_view name) {
    for (const Unit& unit : kUnits)
        if (unit.name == name) return &unit;
    return nullptr;
}

bool equal_but_for_case(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

// "Gb" -> "GB", "Gibit/s" -> "GiB/s", else "": the bytes of a unit of bits.
std::string bytes_of_bits(std::string_view name) {
    std::string_view left = name;
    std::string prefix;
    if (!left.empty() && std::string_view("kKMGTP").find(left.front()) != std::string_view::npos) {
        prefix = left.front() == 'K' && !left.starts_with("Ki") ? 'k' : left.front();
        left.remove_prefix(1);
        if (left.starts_with('i')) prefix += 'i', left.remove_prefix(1);
    }
    for (const std::string_view rate : {"b/s", "bit/s", "bits/s", "bps"})
        if (left == rate) return prefix + "B/s";
    for (const std::string_view amount : {"b", "bit", "bits"})
        if (left == amount) return prefix + "B";
    return {};
}

// "; ..." for a unit that people write and that is refused, else "".
std::string hint_for(std::string_view name, Dimension dimension) {
    for (const Hint& hint : kHints)
        if (hint.unit == name) return fmt::format("; {}", hint.text);
    if (const std::string bytes = bytes_of_bits(name); !bytes.empty())
        return fmt::format("; bits are not accepted; 8 {} is 1 {}", name, bytes);
    for (const Unit& unit : kUnits)
        if (unit.dimension == dimension &&
            (equal_but_for_case(unit.name, name) || unit.name == fmt::format("{}/s", name)))
            return fmt::format("; did you mean {}?", unit.name);
    return {};
}

// What is wrong with `text` when it does not start with a number.
std::string not_a_number(std::string_view text, std::string_view expected) {
    std::string_view why;
    if (text.starts_with('-')) why = ", which is negative";
    if (text.starts_with('+')) why = ", which has a sign";
    return fmt::format("got {}{}, expected {}", quote(text), why, expected);
}

// One space between the words of a unit, however many were written.
std::string normal_unit(std::string_view text) {
    std::string unit;
    for (const char c : trim(text)) {
        if (!is_space(c))
            unit += c;
        else if (!unit.ends_with(' '))
            unit += ' ';
    }
    return unit;
}

struct NumberAndUnit {
    std::string_view number;
    const Unit* unit = nullptr;
};

Parsed<NumberAndUnit> split(std::string_view whole_text, Dimension dimension) {
    const std::string_view text = trim(whole_text);
    const DimensionText dim = text_of(dimension);
    const std::string expected = fmt::format("{} such as \"{}\"", dim.wanted, dim.example);
    const auto refuse = [](std::string error) { return Parsed<NumberAndUnit>{{}, std::move(error)}; };
    const std::size_t length = number_length(text);
    if (length == 0) return refuse(not_a_number(text, expected));
    const std::string_view rest = text.substr(length);
    if (!rest.empty() && (rest.front() == ',' || rest.front() == '_' || rest.front() == '\''))
        return refuse(fmt::format("got {}, expected {} without separators between digits", quote(text), expected));
    if (!rest.empty() && std::string_view(".xX^*/+-").find(trim(rest).front()) != std::string_view::npos)
        return refuse(fmt::format("got {}, expected {}, in decimal", quote(text), expected));
    const std::string unit = normal_unit(rest);
    if (unit.empty()) return refuse(fmt::format("got {} without a unit, expected {}", quote(text), expected));
    if (std::string error = unit_error(unit, dimension); !error.empty())
        return refuse(fmt::format("got {}: {}", quote(text), error));
    return {{text.substr(0, length), find_unit(unit)}, ""};
}

Parsed<std::int64_t> whole_quantity(std::string_view text, Dimension dimension) {
    const Parsed<NumberAndUnit> parts = split(text, dimension);
    if (!parts.error.empty()) return {0, parts.error};
    return whole(parts.value.number, *parts.value.unit, fmt::format(" of {}", text_of(dimension).name));
}

Parsed<double> real_quantity(std::string_view text, Dimension dimension) {
    const Parsed<NumberAndUnit> parts = split(text, dimension);
    if (!parts.error.empty()) return {0, parts.error};
    return real(parts.value.number, *parts.value.unit);
}

constexpr Unit kNoUnit{"", kBytes};

}  // namespace

std::string unit_error(std::string_view unit, Dimension dimension) {
    const DimensionText dim = text_of(dimension);
    const Unit* known = find_unit(unit);
    if (known != nullptr && measures(*known, dimension)) return {};
    const std::string expected = fmt::format("expected {} ({})", dim.wanted, units_of(dimension));
    if (known != nullptr && !(known->dimension == kDuration && dimension == kSeconds))
        return fmt::format("{} is a unit of {}, {}", quote(unit), text_of(known->dimension).name, expected);
    return fmt::format("unknown unit {}, {}{}", quote(unit), expected, hint_for(unit, dimension));
}

Parsed<Bytes> parse_bytes(std::string_view text) {
    Parsed<std::int64_t> parsed = whole_quantity(text, kBytes);
    return {Bytes{parsed.value}, std::move(parsed.error)};
}

Parsed<Tokens> parse_tokens(std::string_view text) {
    Parsed<std::int64_t> parsed = whole_quantity(text, kTokens);
    return {Tokens{parsed.value}, std::move(parsed.error)};
}

Parsed<std::int64_t> parse_sequences(std::string_view text) { return whole_quantity(text, kSequences); }

Parsed<Seconds> parse_seconds(std::string_view text) {
    Parsed<double> parsed = real_quantity(text, kSeconds);
    return {Seconds{parsed.value}, std::move(parsed.error)};
}

Parsed<Seconds> parse_duration(std::string_view text) {
    Parsed<double> parsed = real_quantity(text, kDuration);
    return {Seconds{parsed.value}, std::move(parsed.error)};
}

Parsed<BytesPerSecond> parse_bytes_per_second(std::string_view text) {
    Parsed<double> parsed = real_quantity(text, kBytesPerSecond);
    return {BytesPerSecond{parsed.value}, std::move(parsed.error)};
}

Parsed<FlopsPerSecond> parse_flops_per_second(std::string_view text) {
    Parsed<double> parsed = real_quantity(text, kFlopsPerSecond);
    return {FlopsPerSecond{parsed.value}, std::move(parsed.error)};
}

Parsed<double> parse_fractional_bytes(std::string_view text) { return real_quantity(text, kBytes); }

Parsed<std::int64_t> parse_count(std::string_view text) {
    constexpr std::string_view kExpected = "a bare whole number";
    const std::size_t length = number_length(text);
    if (length == 0) return {0, not_a_number(text, kExpected)};
    for (const char c : text)
        if (!is_digit(c)) return {0, fmt::format("got {}, expected {}", quote(text), kExpected)};
    return whole(text, kNoUnit, "");
}

Parsed<double> parse_number(std::string_view text) {
    constexpr std::string_view kExpected = "a bare number";
    const std::size_t length = number_length(text);
    if (length == 0) return {0, not_a_number(text, kExpected)};
    if (length != text.size()) return {0, fmt::format("got {}, expected {}", quote(text), kExpected)};
    return real(text, kNoUnit);
}

Parsed<double> parse_number_in(std::string_view number, std::string_view unit, Dimension dimension) {
    if (std::string error = unit_error(unit, dimension); !error.empty()) return {0, error};
    if (Parsed<double> bare = parse_number(number); !bare.error.empty()) return bare;
    return real(number, *find_unit(unit));
}

Parsed<std::int64_t> parse_whole_in(std::string_view number, std::string_view unit, Dimension dimension) {
    if (std::string error = unit_error(unit, dimension); !error.empty()) return {0, error};
    if (Parsed<double> bare = parse_number(number); !bare.error.empty()) return {0, bare.error};
    return whole(number, *find_unit(unit), fmt::format(" of {}", text_of(dimension).name));
}

}  // namespace sluice

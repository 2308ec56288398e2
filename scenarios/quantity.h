// Quantities as people write them in files: "80 GiB", "25 GB/s", "4 Mi tokens". The units are listed in
// docs/scenarios.md. Locale-independent. Nothing here throws: a message says what was got and what was expected, and
// the caller knows where.
#pragma once

#include <string>
#include <string_view>

#include "base/units.h"

namespace sluice {

// What a text meant, or why it meant nothing: `error` is empty exactly when `value` is good.
template <class T>
struct Parsed {
    T value{};
    std::string error;
};

enum class Dimension : unsigned char { kBytes, kTokens, kSequences, kSeconds, kDuration, kBytesPerSecond, kFlopsPerSecond };

// Exact: "0.5 KiB" is 512 bytes, "0.3 B" is refused, and so is what does not fit in 63 bits.
Parsed<Bytes> parse_bytes(std::string_view text);
Parsed<Tokens> parse_tokens(std::string_view text);
Parsed<std::int64_t> parse_sequences(std::string_view text);

// The nearest double to the decimal that was written.
Parsed<Seconds> parse_seconds(std::string_view text);
Parsed<Seconds> parse_duration(std::string_view text);  // in minutes, hours and days, too: no time of a machine is so long
Parsed<BytesPerSecond> parse_bytes_per_second(std::string_view text);
Parsed<FlopsPerSecond> parse_flops_per_second(std::string_view text);

// Bytes that need not be whole, for figures per element.
Parsed<double> parse_fractional_bytes(std::string_view text);

// Bare numbers: a whole number, and a decimal one.
Parsed<std::int64_t> parse_count(std::string_view text);
Parsed<double> parse_number(std::string_view text);

// Table cells: a bare number and the unit of its column.
Parsed<double> parse_number_in(std::string_view number, std::string_view unit, Dimension dimension);
Parsed<std::int64_t> parse_whole_in(std::string_view number, std::string_view unit, Dimension dimension);
// Empty when `unit` is one of the dimension's, else what is wrong with it.
std::string unit_error(std::string_view unit, Dimension dimension);

}  // namespace sluice

// Quantities from anybody: a value within its bounds, or a message of one line; and parsers of one text agree.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "scenarios/quantity.h"

namespace {

void require(bool condition, std::string_view promise) {
    if (condition) return;
    std::cerr << "broken promise: " << promise << '\n';
    std::abort();
}

// True for a value.
template <class T>
bool accepted(const sluice::Parsed<T>& parsed) {
    require(parsed.error.find('\n') == parsed.error.npos, "a message is one line");
    return parsed.error.empty();
}

void check_whole(const sluice::Parsed<std::int64_t>& parsed, std::string_view unit) {
    if (!accepted(parsed)) return;
    require(parsed.value >= 0, "counts are not negative");
    if (unit.empty()) {
        require(sluice::parse_count(std::to_string(parsed.value)).value == parsed.value, "a count reads back");
        return;
    }
    const std::string again = std::to_string(parsed.value) + " " + std::string(unit);
    if (unit == "tokens") require(sluice::parse_tokens(again).value.value == parsed.value, "tokens read back");
    if (unit == "B") require(sluice::parse_bytes(again).value.value == parsed.value, "bytes read back");
}

void check_real(const sluice::Parsed<double>& parsed) {
    if (accepted(parsed)) require(parsed.value >= 0 && std::isfinite(parsed.value), "rates and times are finite");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto bytes = sluice::parse_bytes(text);
    const auto tokens = sluice::parse_tokens(text);
    check_whole({bytes.value.value, bytes.error}, "B");
    check_whole({tokens.value.value, tokens.error}, "tokens");
    check_whole(sluice::parse_count(text), "");
    accepted(sluice::parse_sequences(text));
    const auto fractional = sluice::parse_fractional_bytes(text);
    check_real(fractional);
    if (bytes.error.empty()) {
        require(fractional.error.empty(), "whole bytes are fractional bytes too");
        const double whole = static_cast<double>(bytes.value.value);
        require(std::abs(fractional.value - whole) <= 1e-15 * whole, "and the same ones");
    }
    const auto seconds = sluice::parse_seconds(text);
    const auto byte_rate = sluice::parse_bytes_per_second(text);
    const auto flop_rate = sluice::parse_flops_per_second(text);
    check_real({seconds.value.value, seconds.error});
    check_real({byte_rate.value.value, byte_rate.error});
    check_real({flop_rate.value.value, flop_rate.error});
    check_real(sluice::parse_number(text));
    for (const std::string_view unit : {"GiB", "tokens", "TFLOP/s", ""}) {
        check_whole(sluice::parse_whole_in(text, unit, sluice::Dimension::kBytes), "B");
        check_real(sluice::parse_number_in(text, unit, sluice::Dimension::kFlopsPerSecond));
    }
    return 0;
}

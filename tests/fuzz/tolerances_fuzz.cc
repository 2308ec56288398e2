// Tolerances from anybody: ratios within their bounds, or a message of one line.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "scenarios/quote.h"
#include "validation/judge.h"

namespace {

void require(bool condition, std::string_view promise) {
    if (condition) return;
    std::cerr << "broken promise: " << promise << '\n';
    std::abort();
}

void check_ratio(const std::optional<double>& ratio) {
    if (ratio) require(*ratio >= 0 && *ratio <= 10, "tolerances are 0% to 1000%");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    sluice::Tolerances t;
    try {
        sluice::read_tolerances({reinterpret_cast<const char*>(data), size}, "fuzzed", t);
    } catch (const sluice::InputError& e) {
        require(sluice::is_one_line(e.what()), "a message is one line");
        require(std::string_view(e.what()).starts_with("fuzzed:"), "a message names its place");
    }
    for (const auto& ratio : {t.step, t.exposed_copy, t.peak, t.node_peak, t.every_class}) check_ratio(ratio);
    for (const auto& [name, ratio] : t.classes) check_ratio(ratio);
    return 0;
}

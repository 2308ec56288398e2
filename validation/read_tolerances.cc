#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/error.h"
#include "base/nearest_name.h"
#include "scenarios/quote.h"
#include "validation/judge.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 7> kKeys{"step",      "exposed_copy", "bubble", "peak",
                                                "node_peak", "classes",      "class"};

std::vector<std::string_view> words_of(std::string_view line) {
    line = line.substr(0, line.find('#'));
    std::vector<std::string_view> words;
    constexpr std::string_view kBlank = " \t\r";
    for (std::size_t at = 0; (at = line.find_first_not_of(kBlank, at)) != std::string_view::npos;) {
        const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
        words.push_back(line.substr(at, end - at));
        at = end;
    }
    return words;
}

std::optional<double>& field_of(Tolerances& t, std::string_view key) {
    return key == "step"           ? t.step
           : key == "exposed_copy" ? t.exposed_copy
           : key == "bubble"       ? t.bubble
           : key == "peak"         ? t.peak
           : key == "node_peak"    ? t.node_peak
                                   : t.every_class;
}

void read_line(const std::vector<std::string_view>& words, std::string_view place, Tolerances& t) {
    const std::string_view key = words.front();
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
        const std::string nearest = nearest_name(key, kKeys);
        throw InputError(
            fmt::format("{}: got {}, expected step, exposed_copy, bubble, peak, node_peak, classes or class{}", place,
                        quote(key), nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest)));
    }
    const std::size_t expected = key == "class" ? 3 : 2;
    if (words.size() != expected)
        throw InputError(fmt::format("{}: got {} words, expected {}", place, words.size(),
                                     key == "class" ? "\"class NAME PERCENT%\"" : fmt::format("\"{} PERCENT%\"", key)));
    const double value = parse_percentage(words.back(), place);
    if (key == "class")
        t.classes[std::string(words[1])] = value;
    else
        field_of(t, key) = value;
}

}  // namespace

double parse_percentage(std::string_view text, std::string_view place) {
    double percent = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, percent, std::chars_format::fixed);
    if (error != std::errc{} || at + 1 != end || *at != '%' || !(percent >= 0 && percent <= 1000))
        throw InputError(
            fmt::format("{}: got {}, expected a percentage from 0% to 1000%, as in 10%", place, quote(text)));
    return percent / 100;
}

void read_tolerances(std::string_view text, std::string_view origin, Tolerances& tolerances) {
    std::size_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::vector<std::string_view> words = words_of(text.substr(at, end - at));
        ++number;
        if (!words.empty()) read_line(words, fmt::format("{}:{}", origin, number), tolerances);
        at = end + 1;
    }
}

}  // namespace sluice

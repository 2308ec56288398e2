#include "scenarios/text_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

constexpr std::size_t kLongestLine = 8192, kLongestName = 64;
constexpr std::string_view kBlank = " \t";

std::string_view without_process_tag(std::string_view line) {
    constexpr std::string_view kTag = "<stdout>:";
    const std::size_t at = line.find(kTag);
    return line.starts_with('[') && at != line.npos ? line.substr(at + kTag.size()) : line;
}

std::vector<TextWord> words_of(std::string_view line, std::size_t before) {
    std::vector<TextWord> words;
    for (std::size_t at = line.find_first_not_of(kBlank); at != line.npos; at = line.find_first_not_of(kBlank, at)) {
        const std::size_t end = std::min(line.find_first_of(kBlank, at), line.size());
        words.push_back({line.substr(at, end - at), static_cast<int>(before + at) + 1});
        at = end;
    }
    return words;
}

}  // namespace

void TextLine::fail(std::size_t word, std::string_view message) const {
    const int column = word < words.size() ? words[word].column : static_cast<int>(text.size()) + 1;
    throw InputError(fmt::format("{}:{}:{}: {}", origin, number, column, message));
}

std::vector<TextLine> text_lines(std::string_view text, std::string_view origin) {
    std::vector<TextLine> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view whole = text.substr(at, end - at);
        if (whole.ends_with('\r')) whole.remove_suffix(1);
        TextLine line{origin, static_cast<int>(lines.size()) + 1, whole, {}};
        if (whole.size() > kLongestLine)
            line.fail(0, fmt::format("got a line of {} bytes, expected at most {}", whole.size(), kLongestLine));
        if (whole.find('\0') != whole.npos) line.fail(0, "got byte 0x00, expected text");
        line.text = without_process_tag(whole);
        line.words = words_of(line.text, whole.size() - line.text.size());
        lines.push_back(std::move(line));
        at = end + 1;
    }
    return lines;
}

double read_number(const TextLine& line, std::size_t word, std::string_view what) {
    const std::string_view text = line.word(word);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
        line.fail(word, fmt::format("{}: got {}, expected a number", what, quote(text)));
    return value;
}

std::int64_t read_whole(const TextLine& line, std::size_t word, std::string_view what, std::int64_t most) {
    const std::string_view text = line.word(word);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size() || value < 0 || value > most)
        line.fail(word, fmt::format("{}: got {}, expected a whole number up to {}", what, quote(text), most));
    return value;
}

std::string plain_name(std::string_view text, std::string_view origin, int line, int column, std::string_view what) {
    const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (text.empty() || text.size() > kLongestName || !plain)
        throw InputError(fmt::format("{}:{}:{}: {}: got {}, expected at most {} printable ASCII characters", origin,
                                     line, column, what, quote(text), kLongestName));
    return std::string(text);
}

}  // namespace sluice

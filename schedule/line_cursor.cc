#include "schedule/line_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>

#include "base/error.h"
#include "base/nearest_name.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 5> kByteUnits{"TiB", "GiB", "MiB", "KiB", "B"};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Words hold '-' and digits inside: "sluice-schedule", "r3".
bool is_word_part(char c) { return is_letter(c) || is_digit(c) || c == '-'; }
bool is_punctuation(char c) { return std::string_view("()[]|*/@.,:=").find(c) != std::string_view::npos; }

// A piece of a file that may hold anything, fit for one line of a message.
std::string quoted(std::string_view piece) {
    constexpr std::size_t kShown = 40;
    std::string text = "'";
    for (const char c : piece.substr(0, kShown)) {
        if (c >= ' ' && c <= '~') {
            text += c;
        } else {
            text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    return text + (piece.size() > kShown ? "...'" : "'");
}

std::string listed(std::span<const std::string_view> names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
        text += names[i];
    }
    return text;
}

}  // namespace

LineCursor::LineCursor(std::string_view line, std::string_view origin, std::size_t number)
    : line_(line.substr(0, line.find('#'))), origin_(origin), number_(number) {}

char LineCursor::peek() {
    while (next_ < line_.size() && is_blank(line_[next_])) ++next_;
    return next_ < line_.size() ? line_[next_] : '\0';
}

bool LineCursor::accept(char c) {
    if (peek() != c || next_ == line_.size()) return false;
    ++next_;
    return true;
}

void LineCursor::expect(char c) {
    if (!accept(c)) fail(mark(), "unexpected text", fmt::format("'{}'", c));
}

void LineCursor::expect_end(std::string_view expected) {
    if (peek() != '\0' || next_ < line_.size()) fail(mark(), "unexpected text", expected);
}

std::string_view LineCursor::word() {
    if (!is_letter(peek())) return {};
    const std::size_t begin = next_;
    while (next_ < line_.size() && is_word_part(line_[next_])) ++next_;
    return line_.substr(begin, next_ - begin);
}

bool LineCursor::accept_word(std::string_view expected) {
    const std::size_t begin = mark();
    if (word() == expected) return true;
    next_ = begin;
    return false;
}

void LineCursor::expect_word(std::string_view expected) {
    if (!accept_word(expected)) {
        fail(mark(), "unexpected text", fmt::format("'{}'", expected),
             nearest_name(token_at(next_), std::array{expected}));
    }
}

std::size_t LineCursor::choice(std::string_view what, std::span<const std::string_view> names) {
    const std::size_t begin = mark();
    const auto found = std::find(names.begin(), names.end(), word());
    if (found == names.end()) {
        const std::string_view got = token_at(begin);
        if (got.empty()) fail(begin, fmt::format("missing {}", what), listed(names));
        fail(begin, fmt::format("unknown {}", what), listed(names), nearest_name(got, names));
    }
    return static_cast<std::size_t>(found - names.begin());
}

template <class Int>
Int LineCursor::integer(std::string_view what) {
    const std::size_t begin = mark();
    Int value{};
    const char* const first = line_.data() + begin;
    const auto [end, error] = std::from_chars(first, line_.data() + line_.size(), value);
    if (error == std::errc::result_out_of_range) {
        fail(begin, fmt::format("{} out of range", what),
             fmt::format("a whole number from {} to {}", std::numeric_limits<Int>::min(),
                         std::numeric_limits<Int>::max()));
    }
    if (error != std::errc{}) fail(begin, fmt::format("bad {}", what), "a whole number");
    next_ = begin + static_cast<std::size_t>(end - first);
    return value;
}

std::int64_t LineCursor::int64(std::string_view what) { return integer<std::int64_t>(what); }
std::int32_t LineCursor::int32(std::string_view what) { return integer<std::int32_t>(what); }
std::uint32_t LineCursor::uint32(std::string_view what) { return integer<std::uint32_t>(what); }

Bytes LineCursor::bytes(std::string_view what) {
    const std::size_t begin = mark();
    const std::int64_t amount = int64(what);
    if (peek() == '.') fail(begin, fmt::format("bad {}", what), "a whole number (a smaller unit avoids the point)");
    if (amount == 0) {
        for (const std::string_view unit : kByteUnits)
            if (accept_word(unit)) break;
        return Bytes{};
    }
    const std::size_t unit = kByteUnits.size() - 1 - choice("unit of bytes", kByteUnits);
    std::int64_t value = 0;
    if (__builtin_mul_overflow(amount, std::int64_t{1} << (10 * unit), &value)) {
        fail(begin, fmt::format("{} out of range", what), "less than 2^63 bytes");
    }
    return Bytes{value};
}

std::uint32_t LineCursor::prefixed(char prefix, std::string_view what) {
    const std::size_t begin = mark();
    std::uint32_t value = 0;
    bool good = accept(prefix) && next_ < line_.size() && is_digit(line_[next_]);
    if (good) value = uint32(what);
    good = good && (next_ == line_.size() || !is_word_part(line_[next_]));
    if (!good) fail(begin, fmt::format("bad {}", what), fmt::format("'{}' and a number, like {}0", prefix, prefix));
    return value;
}

std::size_t LineCursor::mark() {
    peek();
    return next_;
}

std::string_view LineCursor::token_at(std::size_t begin) const {
    if (begin < line_.size() && is_punctuation(line_[begin])) return line_.substr(begin, 1);
    std::size_t end = begin;
    const auto ends_token = [](char c) { return is_blank(c) || (is_punctuation(c) && c != '.'); };
    while (end < line_.size() && !ends_token(line_[end])) ++end;
    return line_.substr(begin, end - begin);
}

void LineCursor::fail(std::size_t mark, std::string_view what, std::string_view expected, std::string_view suggestion) {
    const std::string_view got = token_at(mark);
    std::string message = fmt::format("{}{}{}:{}: {}, got {}, expected {}", origin_, origin_.empty() ? "" : ":",
                                      number_, mark + 1, what, got.empty() ? "end of line" : quoted(got), expected);
    if (!suggestion.empty()) message += fmt::format(", did you mean '{}'?", suggestion);
    throw InputError(message);
}

}  // namespace sluice

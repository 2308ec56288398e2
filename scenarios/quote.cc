#include "scenarios/quote.h"

namespace sluice {
namespace {

// Bytes of the character at `at` that would move a terminal's cursor or end the line: controls of ASCII and Latin-1,
// U+2028 and U+2029. 0 for any other.
std::size_t control_length(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    if (byte(at) < 0x20 || byte(at) == 0x7f) return 1;
    if (byte(at) == 0xc2 && byte(at + 1) >= 0x80 && byte(at + 1) < 0xa0) return 2;
    const bool separator = byte(at) == 0xe2 && byte(at + 1) == 0x80 && (byte(at + 2) == 0xa8 || byte(at + 2) == 0xa9);
    return separator ? 3 : 0;
}

}  // namespace

bool is_one_line(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i)
        if (control_length(text, i) > 0) return false;
    return true;
}

std::string quote(std::string_view text) {
    constexpr std::size_t kLongest = 60;
    std::size_t end = text.size();
    if (end > kLongest) {
        end = kLongest;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // inside a character
    }
    std::string shown = "\"";
    for (std::size_t i = 0; i < end;) {
        const std::size_t control = control_length(text, i);
        shown += control > 0 ? ' ' : text[i];
        i += control > 0 ? control : 1;
    }
    shown += end < text.size() ? "...\"" : "\"";
    return shown;
}

}  // namespace sluice

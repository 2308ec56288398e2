#include "scenarios/quote.h"

namespace sluice {

std::string quote(std::string_view text) {
    constexpr std::size_t kLongest = 60;
    std::size_t end = text.size();
    if (end > kLongest) {
        end = kLongest;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // inside a character
    }
    std::string shown = "\"";
    for (const char c : text.substr(0, end)) shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    shown += end < text.size() ? "...\"" : "\"";
    return shown;
}

}  // namespace sluice

// Other people's text inside our one-line messages.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// The text in double quotes: at most 60 bytes (whole UTF-8 characters, then "..."), control characters as spaces.
std::string quote(std::string_view text);

// Holds nothing that would end the line or move a terminal's cursor.
bool is_one_line(std::string_view text);

}  // namespace sluice

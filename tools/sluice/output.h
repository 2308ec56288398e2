// Private to the command: where results go. "-" is stdout; files are written whole or not at all.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

namespace sluice {

void write_output(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace sluice

// Private to the command: where results go. "-" is stdout; files are written whole or not at all.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

namespace sluice {

// Refuses, before any work is done, a path that no file can be written to: EnvironmentError when its folder is not
// there or not ours to write, or it is a folder itself; InputError when it is a device or a pipe, which a rename would
// replace.
void require_writable(const std::string& path);

void write_output(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace sluice

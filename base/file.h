// Whole files in and out. Writing is all or nothing: a temporary beside the target, then a rename.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>

#include "base/units.h"

namespace sluice {

// Reads a whole file. Throws InputError (not there, a directory, longer than `limit`).
std::string read_file(const std::filesystem::path& path, Bytes limit);

// Calls `write` on a binary stream and moves the result to `path`; on any failure `path` is as it was before.
// Throws EnvironmentError naming the path and the system's reason.
void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

}  // namespace sluice

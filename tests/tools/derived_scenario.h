// scenarios/tiny.yaml with one thing changed, as a file in a folder of the test.
#pragma once

#include <ostream>
#include <stdexcept>
#include <string>

#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace sluice {

inline std::string tiny_text() {
    return read_file(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios" / "tiny.yaml", 1_MiB);
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    if (at == std::string::npos) throw std::runtime_error("scenarios/tiny.yaml has no '" + from + "' to replace");
    return text.replace(at, from.size(), to);
}

// Returns the path.
inline std::string write_scenario(const TemporaryFolder& folder, const std::string& text) {
    const std::string path = folder / "derived.yaml";
    write_file(path, [&](std::ostream& out) { out << text; });
    return path;
}

}  // namespace sluice

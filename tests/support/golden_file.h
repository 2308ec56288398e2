// Golden files under tests/golden. To rewrite them after a change that was meant: SLUICE_UPDATE_GOLDEN=1 ctest, then
// read the diff.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>

#include "base/file.h"

namespace sluice {

// `name` is relative to tests/golden: "schedules/two_stages.txt".
inline std::filesystem::path golden_path(const std::string& name) {
    return std::filesystem::path(SLUICE_SOURCE_DIR) / "tests" / "golden" / name;
}

inline void expect_golden(const std::string& name, const std::string& got) {
    if (std::getenv("SLUICE_UPDATE_GOLDEN") != nullptr)
        write_file(golden_path(name), [&](std::ostream& out) { out << got; });
    const std::string expected = std::filesystem::exists(golden_path(name)) ? read_file(golden_path(name), 16_MiB) : "";
    EXPECT_TRUE(got == expected) << name << " differs; got\n" << got.substr(0, 4000);
}

}  // namespace sluice

// Golden files of tests/golden/traces. To rewrite them after a change that was meant: SLUICE_UPDATE_GOLDEN=1
// traces_test
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>

#include "base/file.h"

namespace sluice {

inline std::filesystem::path golden_path(const std::string& name) {
    return std::filesystem::path(SLUICE_SOURCE_DIR) / "tests" / "golden" / "traces" / name;
}

inline void expect_golden(const std::string& name, const std::string& got) {
    if (std::getenv("SLUICE_UPDATE_GOLDEN") != nullptr)
        write_file(golden_path(name), [&](std::ostream& out) { out << got; });
    EXPECT_TRUE(read_file(golden_path(name), 1_MiB) == got) << name << " differs";
}

}  // namespace sluice

#include "base/file.h"

#include <gtest/gtest.h>

#include <ostream>
#include <stdexcept>

#include "base/error.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct File : testing::Test {
    const TemporaryFolder temporary;
    const fs::path folder = temporary.path();
    std::size_t entries() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
    }
};

TEST_F(File, FailedWriteLeavesTheOldContentAndNothingElse) {
    write_file(folder / "a", [](std::ostream& out) { out << "old"; });
    EXPECT_THROW(write_file(folder / "a",
                            [](std::ostream& out) {
                                out << "new";
                                throw std::runtime_error("interrupted");
                            }),
                 std::runtime_error);
    EXPECT_EQ(read_file(folder / "a", 1_KiB), "old");
    EXPECT_EQ(entries(), 1U);
}

TEST_F(File, NamesThePathItCannotWrite) {
    try {
        write_file(folder / "missing" / "a", [](std::ostream&) {});
        FAIL() << "expected an EnvironmentError";
    } catch (const EnvironmentError& e) {
        EXPECT_NE(std::string(e.what()).find("missing/a: cannot open for writing: No such file"), std::string::npos);
    }
}

TEST_F(File, RefusesDirectoriesMissingAndOversizedFiles) {
    EXPECT_THROW(read_file(folder, 1_KiB), InputError);
    EXPECT_THROW(read_file(folder / "none", 1_KiB), InputError);
    write_file(folder / "a", [](std::ostream& out) { out << std::string(2000, 'x'); });
    EXPECT_THROW(read_file(folder / "a", 1_KiB), InputError);
    EXPECT_EQ(read_file(folder / "a", 2_KiB).size(), 2000U);
}

}  // namespace
}  // namespace sluice

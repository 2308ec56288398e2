// Every file of tests/golden/scenarios/wrong is refused with exactly the message of its first line, "# expect: ...".
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "scenarios/scenario.h"

namespace sluice {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/golden/scenarios/wrong";

std::set<std::filesystem::path> wrong_files() {
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder))
        if (entry.path().extension() == ".yaml") files.insert(entry.path());
    return files;
}

TEST(WrongScenarios, AreRefusedWithTheWholeMessage) {
    const std::string prefix = "# expect: ";
    const std::set<std::filesystem::path> files = wrong_files();
    EXPECT_GE(files.size(), 100U);
    for (const std::filesystem::path& file : files) {
        const std::string text = read_file(file, 1_MiB);
        ASSERT_TRUE(text.starts_with(prefix)) << file;
        const std::string expected = text.substr(prefix.size(), text.find('\n') - prefix.size());
        try {
            parse_scenario(text, file.filename().string(), kFolder);
            ADD_FAILURE() << file << " is accepted";
        } catch (const InputError& error) {
            EXPECT_EQ(error.what(), expected);
        }
    }
}

TEST(WrongScenarios, MissingFilesAndFoldersAreBadInput) {
    EXPECT_THROW(read_scenario(kFolder / "no-such-file.yaml"), InputError);
    EXPECT_THROW(read_scenario(kFolder), InputError);
    EXPECT_THROW(read_scenario("/dev/zero"), InputError);
}

}  // namespace
}  // namespace sluice

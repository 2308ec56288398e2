#include "base/durable_file.h"

#include <gtest/gtest.h>

#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

void append(DurableFile& file, std::string_view text) { file.append(std::as_bytes(std::span(text))); }

TEST(DurableFileTest, IsThereOnlyWhenFinished) {
    const TemporaryFolder folder;
    write_file(folder / "a", [](std::ostream& out) { out << "old"; });
    {
        DurableFile file(folder / "a");
        append(file, "new ");
        append(file, "content");
        EXPECT_EQ(read_file(folder / "a", 1_KiB), "old");
        file.finish();
    }
    EXPECT_EQ(read_file(folder / "a", 1_KiB), "new content");
    {
        DurableFile abandoned(folder / "a");
        append(abandoned, "newer");
    }
    EXPECT_EQ(read_file(folder / "a", 1_KiB), "new content");
    EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
    sync_folder(folder.path());
}

TEST(DurableFileTest, NamesWhatItCannotWrite) {
    const TemporaryFolder folder;
    try {
        DurableFile file(folder / "none/a");
        FAIL() << "expected an EnvironmentError";
    } catch (const EnvironmentError& error) {
        EXPECT_EQ(std::string(error.what()),
                  (folder / "none/a") + ": cannot open for writing: No such file or directory");
    }
    EXPECT_THROW(sync_folder(folder / "none"), EnvironmentError);
    // A device that is always full.
    std::filesystem::create_symlink("/dev/full", folder / "full.tmp");
    DurableFile full(folder / "full");
    EXPECT_THROW(append(full, "x"), EnvironmentError);
}

}  // namespace
}  // namespace sluice

#include "base/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <ostream>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/mapped_file.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

struct InputFileTest : testing::Test {
    TemporaryFolder folder;
    std::string write(const std::string& name, const std::string& content) const {
        write_file(folder / name, [&](std::ostream& out) { out << content; });
        return folder / name;
    }
};

std::string text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(InputFileTest, ReadsAnyPart) {
    const InputFile file(write("a", "0123456789"));
    EXPECT_EQ(file.size(), 10_B);
    std::array<std::byte, 4> part{};
    file.read_at(6, part);
    EXPECT_EQ(text(part), "6789");
    EXPECT_THROW(file.read_at(7, part), InputError);
    EXPECT_THROW(file.read_at(100, part), InputError);
}

TEST_F(InputFileTest, StaysOpenWhenMoved) {
    InputFile first(write("a", "aa")), second(write("b", "bb"));
    first = std::move(second);
    const InputFile third(std::move(first));
    std::array<std::byte, 2> part{};
    third.read_at(0, part);
    EXPECT_EQ(text(part), "bb");
    EXPECT_EQ(third.path(), folder / "b");
}

// A pipe without a writer would block; a folder cannot be read.
TEST_F(InputFileTest, RefusesWhatIsNoFile) {
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    EXPECT_THROW(InputFile(folder / "pipe"), InputError);
    EXPECT_THROW(InputFile(folder.path()), InputError);
    EXPECT_THROW(InputFile(folder / "none"), InputError);
    EXPECT_THROW(MappedFile(folder / "none"), InputError);
}

TEST_F(InputFileTest, MapsAWholeFile) {
    MappedFile mapped(write("a", "0123456789"));
    const std::byte* const start = mapped.bytes().data();
    const MappedFile moved(std::move(mapped));
    EXPECT_EQ(text(moved.bytes()), "0123456789");
    EXPECT_EQ(moved.bytes().data(), start);
    EXPECT_TRUE(MappedFile(write("empty", "")).bytes().empty());
}

}  // namespace
}  // namespace sluice

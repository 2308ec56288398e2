#include "schedule/schedule_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "random_schedule.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string error_of(std::string_view bytes) {
    try {
        parse_binary_schedule(bytes, "a.sched");
    } catch (const InputError& error) {
        return error.what();
    }
    return "no error";
}

TEST(ScheduleBinary, RoundTripsEverySchedule) {
    for (std::uint32_t seed = 0; seed < 3000; ++seed) {
        const Schedule schedule = random_schedule(seed);
        const std::string bytes = to_binary(schedule);
        ASSERT_EQ(parse_binary_schedule(bytes, ""), schedule) << "seed " << seed;
        ASSERT_EQ(to_binary(parse_binary_schedule(bytes, "")), bytes) << "seed " << seed;
    }
}

TEST(ScheduleBinary, RefusesEveryTruncationAndAnyTail) {
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        const std::string bytes = to_binary(random_schedule(seed));
        for (std::size_t length = 0; length < bytes.size(); ++length) {
            const std::string message = error_of(std::string_view(bytes).substr(0, length));
            ASSERT_TRUE(message.starts_with("a.sched: byte ")) << seed << " " << length << " " << message;
            ASSERT_EQ(message.find('\n'), std::string::npos) << seed << " " << length;
        }
        ASSERT_NE(error_of(bytes + '\0'), "no error");
    }
}

// Records by hand, as protoc --encode would print them: tag bytes are (field << 3 | wire type).
TEST(ScheduleBinary, NamesTheByteAndWhatIsWrong) {
    struct Case {
        std::string records, message;
    };
    const std::string end{"\x02\x32\x00", 3};  // an End record with all counts 0
    const Case cases[] = {
        {"", "byte 8: file ends without an end record: it is cut short"},
        {end + "abc", "byte 11: 3 bytes after the end record"},
        {"\x80", "byte 8: file is cut short inside a record's length"},
        {"\x05\x2a", "byte 8: file is cut short, got 1 bytes of a record, expected 5"},
        {"\xff\xff\xff\xff\x0f", "byte 8: record too long, got 4294967295 bytes, expected at most 67108864"},
        {"\xff\xff\xff\xff\xff\xff", "byte 8: bad record length, expected a varint of at most 5 bytes"},
        {"\x02\x2a\x05", "byte 8: malformed record"},
        {std::string("\0", 1), "byte 8: empty record, expected host, rank, group, buffer, op or end"},
        {std::string("\x02\x2a\0", 3), "byte 8: unknown lane, got 0, expected a value of schedule.proto"},
        {"\x04\x2a\x02\x10\x07", "byte 8: unknown lane, got 7, expected a value of schedule.proto"},
        {"\x04\x2a\x02\x10\x01", "byte 8: op without work, expected compute, copy, send, receive or collective"},
        {std::string("\x08\x2a\x06\x10\x01\x22\x02\x0a\x00", 9),
         "byte 8: kernel without a shape, expected gemm, attention or pointwise"},
        {std::string("\x02\x0a\x00", 3) + end,
         "byte 11: number of hosts, got 0 in the end record, expected the 1 read"},
    };
    for (const Case& c : cases) EXPECT_EQ(error_of("SLSCHED\n" + c.records), "a.sched: " + c.message);
    EXPECT_EQ(error_of("SLTRACE\n"),
              "a.sched: byte 0: not a binary schedule, expected it to begin with \"SLSCHED\\n\"");
}

struct ScheduleFile : testing::Test {
    const TemporaryFolder temporary;
    const fs::path folder = temporary.path();
};

TEST_F(ScheduleFile, ReadsEitherFormWhateverTheName) {
    const Schedule schedule = random_schedule(7);
    write_schedule(folder / "a.txt", schedule);
    write_schedule(folder / "a.sched", schedule);
    EXPECT_TRUE(read_file(folder / "a.txt", 1_MiB).starts_with("sluice-schedule 1\n"));
    EXPECT_TRUE(read_file(folder / "a.sched", 1_MiB).starts_with("SLSCHED\n"));
    fs::rename(folder / "a.txt", folder / "b.sched");
    fs::rename(folder / "a.sched", folder / "b.txt");
    EXPECT_EQ(read_schedule(folder / "b.sched"), schedule);
    EXPECT_EQ(read_schedule(folder / "b.txt"), schedule);
}

TEST_F(ScheduleFile, NamesTheFileInMessages) {
    write_file(folder / "x.yaml", [](std::ostream& out) { out << "model: gpt\n"; });
    try {
        read_schedule(folder / "x.yaml");
        FAIL() << "expected an InputError";
    } catch (const InputError& error) {
        EXPECT_EQ(error.what(),
                  (folder / "x.yaml").string() +
                      ":1:1: not a schedule, got 'model', expected 'sluice-schedule 1' on the first line");
    }
    EXPECT_THROW(read_schedule(folder / "none"), InputError);
    EXPECT_THROW(write_schedule(folder / "missing" / "a.txt", Schedule{}), EnvironmentError);
}

}  // namespace
}  // namespace sluice

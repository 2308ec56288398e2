#include "schedule/schedule_text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "random_schedule.h"
#include "tests/support/golden_file.h"

namespace sluice {
namespace {

// A whole file of these lines.
std::string whole(std::string_view lines) {
    return std::string("sluice-schedule 1\n").append(lines).append(lines.empty() ? "end\n" : "\nend\n");
}

std::string error_of(std::string_view text) {
    try {
        parse_schedule(text, "a.txt");
    } catch (const InputError& error) {
        return error.what();
    }
    return "no error";
}

TEST(ScheduleText, RoundTripsEverySchedule) {
    for (std::uint32_t seed = 0; seed < 3000; ++seed) {
        const Schedule schedule = random_schedule(seed);
        const std::string text = to_text(schedule);
        const Schedule again = parse_schedule(text, "");
        ASSERT_EQ(again, schedule) << "seed " << seed << "\n" << text;
        ASSERT_EQ(to_text(again), text) << "seed " << seed;
    }
}

TEST(ScheduleText, OneOpIsALineThatParsesBack) {
    for (std::uint32_t seed = 0; seed < 500; ++seed) {
        Schedule schedule = random_schedule(seed);
        if (schedule.ops.empty()) continue;
        schedule.ops.resize(1);
        const std::string line = to_text(schedule.ops[0]);
        EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 0);
        EXPECT_EQ(parse_schedule(whole(line), "").ops, schedule.ops) << line;
    }
}

// Written by hand in another way -> as the writer prints it.
TEST(ScheduleText, AcceptsWhatPeopleType) {
    struct Case {
        std::string_view typed, printed;
    };
    const Case cases[] = {
        {"host h0 2048GiB", "host h0 2 TiB"},
        {"host h0 0", "host h0 0 B"},
        {"host h0 0 GiB", "host h0 0 B"},
        {"host h0 1025 KiB", "host h0 1025 KiB"},
        {"  host\th0  1536   B # why\r", "host h0 1536 B"},
        {"\n# nothing\n\nhost h0 1 B", "host h0 1 B"},
        {"host h0 -8388608 TiB", "host h0 -8388608 TiB"},
        {"group g0", "group g0"},
        {"op 0 r0 compute", "op 0 r0 compute"},
        {"op 0 r0 compute|forward", "op 0 r0 compute"},
        {"op 0 r0 compute | backward seq 0 stage -1", "op 0 r0 compute | backward"},
        {"op 0 r0 compute gemm( 1 2 3 ) * 1", "op 0 r0 compute gemm(1 2 3)"},
        {"op 0 r0 compute norm(0)*2", "op 0 r0 compute norm(0 B)*2"},
        {"op 0 r0 copy 1 B | lane copy_in", "op 0 r0 copy_in 1 B"},
        {"op 0 r0 send 1 B | lane send r3", "op 0 r0 send r3 1 B"},
        {"op 0 r0 send r1 1 B | lane copy_in r2", "op 0 r0 send 1 B | lane copy_in r2"},
        {"op 0 r0 collective reduce g1 1 KiB *1 root 0", "op 0 r0 collective reduce g1 1 KiB"},
        {"op 0 r0 compute | optimizer part 1 sub 2 | write b0[0..0] b1[ 2 .. 3 ] read b2[1] | after 5",
         "op 0 r0 compute | after 5 | write b0[0] b1[2..3] read b2[1] | optimizer sub 2 part 1"},
    };
    for (const Case& c : cases)
        EXPECT_EQ(to_text(parse_schedule(whole(c.typed), "a.txt")), whole(c.printed)) << c.typed;
}

TEST(ScheduleText, BufferWithoutBlocksMeansAllOfThem) {
    const Schedule s = parse_schedule(whole("buffer b0 r0 device kv 3 B blocks 1 B 1 B 1 B\n"
                                            "buffer b1 r0 host staging 3 B @7 B persistent\n"
                                            "op 0 r0 compute | read b0 b1"),
                                      "");
    EXPECT_EQ(s.buffers[0].blocks.size(), 3U);
    EXPECT_EQ(s.buffers[1].offset, 7_B);
    EXPECT_TRUE(s.buffers[1].persistent);
    const std::vector<Access> expected{{BufferId{0}, 0, 2, AccessMode::kRead}, {BufferId{1}, 0, 0, AccessMode::kRead}};
    EXPECT_EQ(s.ops[0].accesses, expected);
}

struct Malformed {
    std::string_view lines;    // below the header
    std::string_view message;  // after "a.txt:2:"
};

const Malformed kMalformed[] = {
    {"buffr b0 r0",
     "1: unknown line, got 'buffr', expected op, buffer, group, rank, host or end, did you mean 'buffer'?"},
    {"op 1 r0 compute", "4: op lines are numbered from 0 in order, got '1', expected 0"},
    {"buffer b3 r0 device kv 1 B", "8: buffer lines are numbered from 0 in order, got 'b3', expected b0"},
    {"host h0 2 GB", "11: unknown unit of bytes, got 'GB', expected TiB, GiB, MiB, KiB or B, did you mean 'GiB'?"},
    {"host h0 2", "10: missing unit of bytes, got end of line, expected TiB, GiB, MiB, KiB or B"},
    {"host h0 1.5 GiB", "9: bad host capacity, got '1.5', expected a whole number (a smaller unit avoids the point)"},
    {"host h0 9223372036854775808 B",
     "9: host capacity out of range, got '9223372036854775808', expected a whole number from -9223372036854775808 to "
     "9223372036854775807"},
    {"host h0 8388608 TiB", "9: host capacity out of range, got '8388608', expected less than 2^63 bytes"},
    {"host h0 NaN GiB", "9: bad host capacity, got 'NaN', expected a whole number"},
    {"rank r0 h 80 GiB", "9: bad host, got 'h', expected 'h' and a number, like h0"},
    {"rank r0 h0 80 GiB 80 GiB", "19: unexpected text, got '80', expected end of line"},
    {"group g0 r0, r1", "12: bad rank, got ',', expected 'r' and a number, like r0"},
    {"group g0 r99999999999", "11: rank out of range, got '99999999999', expected a whole number from 0 to 4294967295"},
    {"buffer b0 r0 gpu kv 1 B", "14: unknown space, got 'gpu', expected device or host"},
    {"buffer b0 r0 host kv 1 B persistant",
     "26: unknown buffer property, got 'persistant', expected persistent, blocks or tensors, did you mean 'persistent'?"},
    {"buffer b0 r0 host kv 1 B blocks", "32: bad block size, got end of line, expected a whole number"},
    {"op 0 r0 copy 1 MiB", "9: copy without a direction, got 'copy', expected copy_out or copy_in"},
    {"op 0 r0 copyout 1 MiB",
     "9: unknown work, got 'copyout', expected compute, copy_out, copy_in, collective, send, receive or copy, did you "
     "mean 'copy_out'?"},
    {"op 0 r0 compute gem(1 2 3)",
     "17: unknown kernel, got 'gem', expected gemm, attention, norm, rope, activation, residual, embedding, "
     "cross_entropy, accumulate, adamw or other, did you mean 'gemm'?"},
    {"op 0 r0 compute gemm(1 2)", "25: bad gemm size k, got ')', expected a whole number"},
    {"op 0 r0 compute attention(forward causal q 1 k 1 heads 1 d 1)", "58: unexpected text, got 'd', expected '/'"},
    {"op 0 r0 compute attention(forward masked q 1 k 1 heads 1/1 d 1)",
     "35: unknown mask, got 'masked', expected full or causal"},
    {"op 0 r0 compute norm(1 B", "25: unexpected text, got end of line, expected ')'"},
    {"op 0 r0 send r1 1 B after 1", "21: unexpected text, got 'after', expected '|' or end of line"},
    {"op 0 r0 compute | after 1 | after 2",
     "29: second section of its kind, got 'after', expected one of each at most"},
    {"op 0 r0 compute | after 1, 2", "26: bad op, got ',', expected a whole number"},
    {"op 0 r0 compute | read b0",
     "24: buffer without blocks is not declared above, got 'b0', expected its 'buffer' line "
     "above, or blocks like b0[0]"},
    {"op 0 r0 compute | read b0[1-2]", "28: unexpected text, got '-2', expected ']'"},
    {"op 0 r0 compute | forward subsequence 1",
     "27: unknown tag, got 'subsequence', expected seq, stage, virtual, layer, sub, part or function"},
    {"op 0 r0 compute | \x01\xff",
     "19: unknown section, got '\\x01\\xff', expected after, lane, read, write, accumulate, "
     "forward, backward, input_grad, weight_grad, recompute or optimizer"},
};

TEST(ScheduleText, NamesThePlaceAndWhatWasExpected) {
    for (const Malformed& c : kMalformed)
        EXPECT_EQ(error_of(whole(c.lines)), fmt::format("a.txt:2:{}", c.message)) << c.lines;
}

TEST(ScheduleText, RefusesWhatIsNoSchedule) {
    struct Case {
        std::string text, message;
    };
    const Case cases[] = {
        {"", "a.txt:1:1: not a schedule, got end of line, expected 'sluice-schedule 1' on the first line"},
        {"# only a comment\n\n",
         "a.txt:2:1: not a schedule, got end of line, expected 'sluice-schedule 1' on the first line"},
        {"# yes\nhost h0 1 B", "a.txt:2:1: not a schedule, got 'host', expected 'sluice-schedule 1' on the first line"},
        {"sluice-schedule 2", "a.txt:1:17: unknown version, got '2', expected 1"},
        {"sluice-schedule 1\nhost h0 1 B\n",
         "a.txt:3:1: the file is cut short, got end of file, expected 'end' on the last line"},
        {"sluice-schedule 1", "a.txt:2:1: the file is cut short, got end of file, expected 'end' on the last line"},
        {"sluice-schedule 1\nen",
         "a.txt:2:1: unknown line, got 'en', expected op, buffer, group, rank, host or end, did you mean 'end'?"},
        {"sluice-schedule 1\nend 5", "a.txt:2:5: unexpected text, got '5', expected end of line"},
        {"sluice-schedule 1\nend\n\nend", "a.txt:4:1: text after the 'end' line, got 'end', expected comments only"},
        {std::string("sluice-schedule 1\n\0\n", 20), "a.txt:2:1: unexpected text, got '\\x00', expected end of line"},
        {std::string(100, 'x'), "a.txt:1:1: not a schedule, got '" + std::string(40, 'x') +
                                    "...', expected 'sluice-schedule 1' on the first line"},
    };
    for (const Case& c : cases) EXPECT_EQ(error_of(c.text), c.message);
}

TEST(ScheduleText, RefusesEndlessLines) {
    const std::string line = "group g0" + std::string((1 << 20) - 8, ' ');
    EXPECT_EQ(error_of(whole(line)), "no error");
    EXPECT_EQ(error_of(whole(line + "  ")),
              "a.txt:2:1048577: line too long, got end of line, expected at most 1048576 bytes");
}

// Cut at every byte before the end of 'end': refused in one line. What comes after is comments and blanks.
TEST(ScheduleText, RefusesEveryTruncation) {
    for (const char* name : {"two_stages", "multiplexed", "offload"}) {
        const std::string typed = read_file(golden_path(std::string("schedules/") + name + ".txt"), 1_MiB);
        for (const std::string& text : {typed, to_text(parse_schedule(typed, name))}) {
            const std::size_t end = text.rfind("\nend") + 4;
            for (std::size_t length = 0; length < text.size(); ++length) {
                const std::string message = error_of(text.substr(0, length));
                ASSERT_EQ(message.starts_with("a.txt:"), length < end) << name << " " << length << " " << message;
                ASSERT_EQ(message.find('\n'), std::string::npos) << name << " " << length;
            }
        }
    }
}

}  // namespace
}  // namespace sluice

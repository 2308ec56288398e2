#include "scenarios/quantity.h"

#include <gtest/gtest.h>

#include <locale>

namespace sluice {
namespace {

constexpr std::int64_t kMax = INT64_MAX;

TEST(Quantity, BytesAreExact) {
    const struct {
        std::string_view text;
        std::int64_t bytes;
    } table[] = {
        {"0 B", 0},
        {"512 B", 512},
        {"0.5 KiB", 512},
        {"1.5 KiB", 1536},
        {"0.0009765625 KiB", 1},
        {"80 GiB", 80LL << 30},
        {"80GiB", 80LL << 30},
        {"  80   GiB  ", 80LL << 30},
        {"2.75 GiB", 2952790016},
        {"4 MB", 4'000'000},
        {"4 kB", 4000},
        {"0.001 kB", 1},
        {"1e3 B", 1000},
        {"1.25e2 B", 125},
        {"12500e-2 B", 125},
        {"1E+2 B", 100},
        {"000000000000000000000000001 B", 1},
        {"1.000000000000000000000000000 B", 1},
        {"0e999999999999 B", 0},
        {"0.000 B", 0},
        {"9223372036854775807 B", kMax},
        {"8191 PiB", 8191LL << 50},
        {"9.2 PB", 9'200'000'000'000'000},
        {"0.1 TB", 100'000'000'000},
    };
    for (const auto& row : table) {
        const Parsed<Bytes> parsed = parse_bytes(row.text);
        EXPECT_EQ(parsed.error, "") << row.text;
        EXPECT_EQ(parsed.value.value, row.bytes) << row.text;
    }
}

TEST(Quantity, TokensHaveBinaryPrefixesOnly) {
    EXPECT_EQ(parse_tokens("4 Mi tokens").value, Tokens{4 << 20});
    EXPECT_EQ(parse_tokens("4194304 tokens").value, Tokens{4194304});
    EXPECT_EQ(parse_tokens("128 Ki tokens").value, Tokens{131072});
    EXPECT_EQ(parse_tokens("128  Ki   tokens").value, Tokens{131072});
    EXPECT_EQ(parse_tokens("0.5 Ki tokens").value, Tokens{512});
    EXPECT_EQ(parse_tokens("1 token").value, Tokens{1});
    EXPECT_NE(parse_tokens("4 M tokens").error, "");
    EXPECT_NE(parse_tokens("4 K tokens").error, "");
    EXPECT_NE(parse_tokens("4 k tokens").error, "");
    EXPECT_NE(parse_tokens("4 Mi").error, "");
}

TEST(Quantity, RealsAreTheNearestDouble) {
    EXPECT_EQ(parse_seconds("5 us").value.value, 5e-6);
    EXPECT_EQ(parse_seconds("9.6 us").value.value, 9.6e-6);
    EXPECT_EQ(parse_seconds("0.3 ns").value.value, 0.3e-9);
    EXPECT_EQ(parse_seconds("2.5e3 ms").value.value, 2.5);
    EXPECT_EQ(parse_seconds("30 min").error, "got \"30 min\": unknown unit \"min\", expected a time (ns, us, ms, s)");
    EXPECT_EQ(parse_duration("5 us").value.value, 5e-6);
    EXPECT_EQ(parse_duration("30 min").value.value, 1800.0);
    EXPECT_EQ(parse_duration("50000 h").value.value, 1.8e8);
    EXPECT_EQ(parse_duration("1.5 days").value.value, 129600.0);
    EXPECT_EQ(parse_seconds("0 s").value.value, 0.0);
    EXPECT_EQ(parse_bytes_per_second("24.8 GB/s").value.value, 24.8e9);
    EXPECT_EQ(parse_bytes_per_second("1 MiB/s").value.value, 1048576.0);
    EXPECT_EQ(parse_bytes_per_second("0.1 KiB/s").value.value, 102.4);
    EXPECT_EQ(parse_flops_per_second("312 TFLOP/s").value.value, 312e12);
    EXPECT_EQ(parse_flops_per_second("0.312 PFLOP/s").value.value, 0.312e15);
    EXPECT_EQ(parse_fractional_bytes("0.25 B").value, 0.25);
    EXPECT_EQ(parse_number("0.1").value, 0.1);
    EXPECT_EQ(parse_number("1").value, 1.0);
}

TEST(Quantity, ColumnsGiveTheUnit) {
    EXPECT_EQ(parse_number_in("120.5", "TFLOP/s", Dimension::kFlopsPerSecond).value, 120.5e12);
    EXPECT_EQ(parse_whole_in("0.5", "Ki tokens", Dimension::kTokens).value, 512);
    EXPECT_EQ(parse_whole_in("16", "MiB", Dimension::kBytes).value, 16 << 20);
    EXPECT_EQ(parse_whole_in("16 MiB", "MiB", Dimension::kBytes).error, "got \"16 MiB\", expected a bare number");
    EXPECT_EQ(parse_whole_in("0.3", "B", Dimension::kBytes).error, "got \"0.3 B\", expected a whole number of bytes");
    EXPECT_EQ(unit_error("MiB", Dimension::kBytes), "");
    EXPECT_EQ(unit_error("MiB", Dimension::kSequences),
              "\"MiB\" is a unit of bytes, expected sequences (sequences, sequence)");
}

// The whole message: what a user sees behind the place.
TEST(Quantity, RefusalsSayWhatWasExpected) {
    const struct {
        std::string_view text, error;
    } table[] = {
        {"", "got \"\", expected bytes such as \"80 GiB\""},
        {"GiB", "got \"GiB\", expected bytes such as \"80 GiB\""},
        {"80", "got \"80\" without a unit, expected bytes such as \"80 GiB\""},
        {"80 s",
         "got \"80 s\": \"s\" is a unit of time, expected bytes (B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB, PB)"},
        {"80 KB",
         "got \"80 KB\": unknown unit \"KB\", expected bytes (B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB, PB); write "
         "kB "
         "for 1000 bytes, KiB for 1024"},
        {"80 gib",
         "got \"80 gib\": unknown unit \"gib\", expected bytes (B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB, PB); did "
         "you "
         "mean GiB?"},
        {"0.3 B", "got \"0.3 B\", expected a whole number of bytes"},
        {"0.3 KiB", "got \"0.3 KiB\", expected a whole number of bytes"},
        {"1e-999999999999 B", "got \"1e-999999999999 B\", expected a whole number of bytes"},
        {"-1 B", "got \"-1 B\", which is negative, expected bytes such as \"80 GiB\""},
        {"+1 B", "got \"+1 B\", which has a sign, expected bytes such as \"80 GiB\""},
        {"nan B", "got \"nan B\", expected bytes such as \"80 GiB\""},
        {"inf B", "got \"inf B\", expected bytes such as \"80 GiB\""},
        {".5 B", "got \".5 B\", expected bytes such as \"80 GiB\""},
        {"0x10 B", "got \"0x10 B\", expected bytes such as \"80 GiB\", in decimal"},
        {"1.2.3 B", "got \"1.2.3 B\", expected bytes such as \"80 GiB\", in decimal"},
        {"1,024 B", "got \"1,024 B\", expected bytes such as \"80 GiB\" without separators between digits"},
        {"1_024 B", "got \"1_024 B\", expected bytes such as \"80 GiB\" without separators between digits"},
        {"1'024 B", "got \"1'024 B\", expected bytes such as \"80 GiB\" without separators between digits"},
        {"1 024 B",
         "got \"1 024 B\": unknown unit \"024 B\", expected bytes (B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB, PB)"},
        {"9223372036854775808 B", "got \"9223372036854775808 B\", which does not fit in 63 bits"},
        {"8192 PiB", "got \"8192 PiB\", which does not fit in 63 bits"},
        {"18446744073709551616 B", "got \"18446744073709551616 B\", which has more digits than 64 bits hold"},
        {"1e999999999999 B", "got \"1e999999999999 B\", which does not fit in 63 bits"},
    };
    for (const auto& row : table) EXPECT_EQ(parse_bytes(row.text).error, row.error);
    EXPECT_EQ(parse_bytes_per_second("1e308 TB/s").error, "got \"1e308 TB/s\", which is out of range");
    EXPECT_EQ(parse_bytes_per_second("1e308 TiB/s").error, "got \"1e308 TiB/s\", which is out of range");
    EXPECT_EQ(parse_seconds("1e-400 s").error, "got \"1e-400 s\", which is out of range");
}

TEST(Quantity, CountsAreBareAndWhole) {
    EXPECT_EQ(parse_count("32").value, 32);
    EXPECT_EQ(parse_count("032").value, 32);  // decimal, not octal
    EXPECT_EQ(parse_count("9223372036854775807").value, kMax);
    for (const std::string_view wrong :
         {"", "x", "3.0", "1e3", "-1", "+1", " 1", "1 GPU", "0x10", "9223372036854775808"})
        EXPECT_NE(parse_count(wrong).error, "") << wrong;
    for (const std::string_view wrong : {"", "x", ".nan", "nan", "inf", ".inf", "-0.1", "50%", "1,5", "0.5 B", "1e999"})
        EXPECT_NE(parse_number(wrong).error, "") << wrong;
}

// A locale with a decimal comma and thousands separators, whether or not the system has one installed.
TEST(Quantity, IgnoresTheLocale) {
    struct Comma : std::numpunct<char> {
        char do_decimal_point() const override { return ','; }
        char do_thousands_sep() const override { return '.'; }
        std::string do_grouping() const override { return "\3"; }
    };
    const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
    const Parsed<Seconds> seconds = parse_seconds("1234.5 us");
    const Parsed<Bytes> bytes = parse_bytes("1.5 KiB");
    const std::string error = parse_count("9223372036854775808").error;
    std::locale::global(before);
    EXPECT_EQ(seconds.value.value, 1234.5e-6);
    EXPECT_EQ(bytes.value, Bytes{1536});
    EXPECT_EQ(error, "got \"9223372036854775808\", which does not fit in 63 bits");
}

}  // namespace
}  // namespace sluice

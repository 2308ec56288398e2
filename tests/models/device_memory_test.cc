#include "models/device_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "scenarios/scenario.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

// The shipped cluster, but for its margin.
Scenario h200() {
    Scenario s = read_scenario(std::string(SLUICE_SOURCE_DIR) + "/scenarios/dense-7b4-1m-h200x1.yaml");
    s.cluster.gpu.margin = 0_B;
    return s;
}

// validation/h200.md, "Memory beyond the arena".
TEST(DeviceMemory, MeasuredRunsAreWithin5MB) {
    const struct {
        Tokens tokens;
        Bytes pinned, measured;
    } runs[] = {{Tokens{16} * 1024, 0_B, Bytes{671'000'000}},  // to the MB, as all but the last two
                {Tokens{131072}, 0_B, Bytes{675'000'000}},
                {Tokens{131072}, 117_GiB, Bytes{920'000'000}},
                {Tokens{524288}, 116_GiB, Bytes{935'000'000}},
                {Tokens{1048576}, 116_GiB, Bytes{952'000'000}},
                {Tokens{1081728}, Bytes{106'892'034'048}, Bytes{926'833'664}},
                {Tokens{1081600}, Bytes{106'879'385'600}, Bytes{925'785'088}}};
    for (const auto& run : runs) {
        Scenario s = h200();
        s.sequence = run.tokens;
        const Bytes predicted = beyond_arena_bytes(s, run.pinned);
        EXPECT_NEAR(static_cast<double>(predicted.value), static_cast<double>(run.measured.value), 5e6)
            << run.tokens.value;
    }
}

TEST(DeviceMemory, PageTablesAreRoundedUpToAByte) {
    const Gpu gpu = h200().cluster.gpu;  // a byte for every 512
    EXPECT_EQ(page_table_bytes(gpu, 0_B), 0_B);
    EXPECT_EQ(page_table_bytes(gpu, 1_B), 1_B);
    EXPECT_EQ(page_table_bytes(gpu, 512_B), 1_B);
    EXPECT_EQ(page_table_bytes(gpu, 513_B), 2_B);
    EXPECT_EQ(page_table_bytes(gpu, 1_GiB - 1_B), 2_MiB);
    EXPECT_EQ(page_table_bytes(gpu, 3_GiB + 1_B), 6_MiB + 1_B);
    Gpu most = gpu;
    most.reserved_per_pinned_gib = 64_MiB;
    EXPECT_EQ(page_table_bytes(most, Bytes{std::int64_t{1} << 50}), Bytes{std::int64_t{1} << 46}) << "no overflow";
}

TEST(DeviceMemory, EverySequenceOfTheBatchCounts) {
    Scenario s = h200();
    const Bytes one = beyond_arena_bytes(s, 0_B);
    s.batch = 3;
    EXPECT_EQ(beyond_arena_bytes(s, 0_B) - one, s.cluster.gpu.reserved_per_token * (2 * s.sequence.value));
}

TEST(DeviceMemory, TheMarginIsNeitherUsedNorUsable) {
    Scenario s = h200();
    const Bytes beyond = beyond_arena_bytes(s, 5_GiB), usable = usable_device_memory(s, 5_GiB);
    EXPECT_EQ(beyond + usable, s.cluster.gpu.memory);
    s.cluster.gpu.margin = 16_MiB;
    EXPECT_EQ(beyond_arena_bytes(s, 5_GiB), beyond);
    EXPECT_EQ(usable_device_memory(s, 5_GiB), usable - 16_MiB);
}

TEST(DeviceMemory, MoreThanThereIsLeavesNothing) {
    Scenario s = h200();
    s.cluster.gpu.memory = s.cluster.gpu.reserved + 1_B;
    EXPECT_EQ(usable_device_memory(s, 0_B), 0_B);
}

TEST(DeviceMemory, WithoutTheRuleReservedIsAll) {
    Scenario s = small_scenario();
    s.cluster.gpu.reserved = 100_MiB;
    EXPECT_EQ(beyond_arena_bytes(s, 7_GiB), 100_MiB);
    EXPECT_EQ(usable_device_memory(s, 7_GiB), s.cluster.gpu.usable());
}

}  // namespace
}  // namespace sluice

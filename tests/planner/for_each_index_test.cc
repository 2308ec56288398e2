#include "planner/for_each_index.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace sluice {
namespace {

TEST(ForEachIndex, EveryIndexOnce) {
    for (const std::size_t workers : {0, 1, 3, 50})
        for (const std::size_t count : {0, 1, 7, 40}) {
            std::vector<std::atomic<int>> calls(count);
            for_each_index(count, workers, [&](std::size_t k) { return ++calls[k], true; });
            for (const std::atomic<int>& c : calls) EXPECT_EQ(c, 1);
        }
}

TEST(ForEachIndex, EndsEarly) {
    for (const std::size_t workers : {1, 4}) {
        std::atomic<std::size_t> begun{0};
        for_each_index(1000, workers, [&](std::size_t k) { return ++begun, k < 10; });
        EXPECT_GE(begun, 11U) << "those before the one that ends it are all begun";
        if (workers == 1) {
            EXPECT_EQ(begun, 11U);
        }
    }
}

TEST(ForEachIndex, ThrowsTheFirstFailureWhenAllHaveEnded) {
    for (const std::size_t workers : {1, 4}) {
        std::atomic<int> running{0};
        try {
            for_each_index(100, workers, [&](std::size_t k) -> bool {
                ++running;
                if (k == 3) --running, throw std::runtime_error("three");
                --running;
                return true;
            });
            ADD_FAILURE() << "nothing thrown";
        } catch (const std::runtime_error& error) {
            EXPECT_STREQ(error.what(), "three");
        }
        EXPECT_EQ(running, 0);
    }
}

}  // namespace
}  // namespace sluice

#include "base/nearest_name.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice {
namespace {

TEST(NearestName, SuggestsOnlyWhatCouldHaveBeenMeant) {
    constexpr std::array<std::string_view, 4> keys{"sequence", "batch", "policy", "cluster"};
    struct Case {
        std::string_view typed, expected;
    };
    for (const Case c : {Case{"sequnce", "sequence"},
                         {"seqence_", "sequence"},
                         {"bacth", "batch"},
                         {"poliy", "policy"},
                         {"zebra", ""},
                         {"", ""}})
        EXPECT_EQ(nearest_name(c.typed, keys), c.expected) << c.typed;
}

TEST(NearestName, IgnoresHostileLengths) {
    constexpr std::array<std::string_view, 1> keys{"batch"};
    EXPECT_EQ(nearest_name(std::string(1 << 20, 'b'), keys), "");
}

}  // namespace
}  // namespace sluice

// Whether parameters and their optimizer states are the same to the bit.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "runtime/decoder/session.h"

namespace sluice {

inline void expect_same_bits(const std::vector<WholeParameter>& a, const std::vector<WholeParameter>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].name, b[i].name);
        EXPECT_TRUE(a[i].weights == b[i].weights) << a[i].name;
        EXPECT_TRUE(a[i].first_moment == b[i].first_moment) << a[i].name;
        EXPECT_TRUE(a[i].second_moment == b[i].second_moment) << a[i].name;
    }
}

}  // namespace sluice

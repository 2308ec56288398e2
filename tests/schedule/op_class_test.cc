#include "schedule/op_class.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(OpClass, Names) {
    EXPECT_EQ(op_class(Gemm{}), "gemm");
    EXPECT_EQ(op_class(Attention{}), "attention_forward");
    EXPECT_EQ(op_class(Attention{.pass = Pass::kBackward}), "attention_backward");
    EXPECT_EQ(op_class(Pointwise{PointwiseKind::kAdamw, 1_B}), "adamw");
}

}  // namespace
}  // namespace sluice

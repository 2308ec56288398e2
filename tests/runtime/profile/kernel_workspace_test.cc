// The workspace that a profile promises covers every kernel of the CPU backend, whatever the shape.
#include <gtest/gtest.h>

#include "models/layer_kernels.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cpu/vocabulary_loss.h"
#include "runtime/profile/cpu_profile.h"

namespace sluice {
namespace {

TEST(CpuKernelWorkspace, CoversAttentionOfEveryShape) {
    const Bytes bound = cpu_kernel_workspace(1, Tokens{1});  // almost nothing for the loss
    Bytes largest{0};
    for (const std::int64_t length : {1, 2, 127, 128, 129, 1000, 4096, 1 << 22})
        for (const std::int64_t begin : {0, 1, 127, 128, 1000, 1 << 24})
            for (const std::int64_t heads : {1, 8, 64})
                for (const std::int64_t head_dim : {1, 32, 128, 256}) {
                    const AttentionShape shape{Tokens{begin}, Tokens{length}, heads, 1, head_dim};
                    largest =
                        std::max({largest, attention_forward_workspace(shape), attention_backward_workspace(shape)});
                }
    EXPECT_LE(largest, bound);
    EXPECT_EQ(largest, bound);  // and is no larger than needed
}

TEST(CpuKernelWorkspace, CoversTheLossOfAChunk) {
    for (const std::int64_t sp : {1, 2, 4, 8})
        for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{1000}, kLogitsChunk.value}) {
            const Bytes partials{tokens * sp * static_cast<std::int64_t>(sizeof(LossPartial))}, lse{tokens * 4};
            EXPECT_GE(cpu_kernel_workspace(sp, kLogitsChunk), partials + lse);
        }
}

}  // namespace
}  // namespace sluice

// The paper's recurrence M_i = M_(i-1) + A_i - alpha_(i-1) A_(i-1) against what a lowered schedule keeps alive.
#include <gtest/gtest.h>

#include <limits>

#include "planner/lower.h"
#include "planner/offload_rule.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

struct Span {
    std::size_t first = std::numeric_limits<std::size_t>::max(), last = 0;
};

TEST(Recurrence, IsTheLiveActivationsWhenTheCopyBeforeIsOut) {
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer}) {
        Scenario s = small_scenario(2, 2, 6);
        s.policy.placement = OffloadRatio{0.6};
        s.policy.granularity = granularity;
        const Lowered lowered = lower(s);
        const Schedule& schedule = lowered.schedule;
        std::vector<Span> spans(schedule.buffers.size());
        std::vector<const Op*> program;  // rank 0, stage 0: no loss gradients among its activations
        for (const Op& op : schedule.ops)
            if (op.rank == Rank{0}) {
                for (const Access& access : op.accesses) {
                    Span& span = spans[index(access.buffer)];
                    span.first = std::min(span.first, program.size());
                    span.last = program.size();
                }
                program.push_back(&op);
            }
        const auto live_after = [&](std::size_t position) {
            Bytes live{};
            for (const Buffer& b : schedule.buffers)
                if (b.rank == Rank{0} && b.space == Space::kDevice && b.kind == BufferKind::kActivation &&
                    spans[index(b.id)].first <= position && spans[index(b.id)].last > position)
                    live += b.bytes;
            return live;
        };
        const StagePlan& stage = lowered.plan.stages[0];
        const std::vector<Bytes> m = memory_recurrence(0_B, stage.activation, stage.offloaded);
        std::size_t checked = 0;
        for (std::size_t p = 0; p < program.size(); ++p) {
            const bool last_copy_of_its_subsequence =
                program[p]->lane.kind == LaneKind::kCopyOut &&
                (granularity == Granularity::kStage || program[p]->tag.layer == stage.layers - 1);
            const auto copied = static_cast<std::size_t>(program[p]->tag.subsequence);
            if (!last_copy_of_its_subsequence || copied + 1 >= m.size()) continue;
            EXPECT_EQ(live_after(p), m[copied + 1]) << "subsequence " << copied + 1;
            ++checked;
        }
        EXPECT_EQ(checked, m.size() - 1);
    }
}

}  // namespace
}  // namespace sluice

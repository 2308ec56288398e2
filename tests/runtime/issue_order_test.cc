// That threads which issue messages while they wait for their partners come through, and that others are told why not.
#include "runtime/issue_order.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "runtime/local_ranks.h"
#include "schedule/verify.h"
#include "tests/runtime/training_case.h"
#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

void issue(const Schedule& schedule) { expect_issuable(schedule, rank_programs(schedule, all_ranks(schedule))); }

struct Cut {
    std::int64_t n, sp, pp, dp;
};

TEST(IssueOrder, PlannedSchedulesAreProjectionsOfOneOrder) {
    for (const Cut& c : {Cut{1, 2, 1, 1}, Cut{4, 1, 2, 1}, Cut{5, 1, 4, 1}, Cut{4, 2, 2, 1}, Cut{3, 2, 2, 2},
                         Cut{6, 4, 4, 2}, Cut{2, 1, 4, 2}})
        for (const SequenceParallelKind kind : {SequenceParallelKind::kMegatron, SequenceParallelKind::kUlysses}) {
            SCOPED_TRACE(testing::Message() << "n " << c.n << " sp " << c.sp << " pp " << c.pp << " dp " << c.dp);
            Scenario s = training_scenario(tiny_architecture(Style::kGpt2), c.sp * c.n * 8, c.n, c.sp, c.pp, c.dp);
            s.policy.sp_kind = kind;
            for (const PlacementPolicy& placement : {PlacementPolicy{KeepAll{}}, PlacementPolicy{OffloadAll{}}}) {
                s.policy.placement = placement;
                EXPECT_NO_THROW(issue(lowered_schedule(s)));
            }
        }
}

// Valid by the rules: different lanes of a rank need not start in listed order. But a thread that blocks while it
// issues never comes to the second.
TEST(IssueOrder, CrossedMessagesAreRefusedWithBothRanksOps) {
    ScheduleBuilder b(2);
    const OpId send0 = b.send(0, 1, 8_B);
    b.receive(0, 1, 8_B);
    const OpId send1 = b.send(1, 0, 8_B);
    b.receive(1, 0, 8_B);
    try {
        issue(b.schedule);
        ADD_FAILURE() << "both send first, and neither receives";
    } catch (const InputError& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("rank 0 at op " + std::to_string(index(send0))), std::string::npos) << message;
        EXPECT_NE(message.find("rank 1 at op " + std::to_string(index(send1))), std::string::npos) << message;
    }
}

TEST(IssueOrder, PartnersThatAreNotHereAreTakenForReady) {
    ScheduleBuilder b(2);
    b.send(0, 1, 8_B), b.receive(0, 1, 8_B);
    b.send(1, 0, 8_B), b.receive(1, 0, 8_B);
    const std::vector<Rank> one = {id_at<Rank>(1)};
    EXPECT_NO_THROW(expect_issuable(b.schedule, rank_programs(b.schedule, one)));
}

}  // namespace
}  // namespace sluice

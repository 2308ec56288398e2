// Collectives as flows, matches, and reloads with their offloads.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "models/collective_cost.h"
#include "models/rails.h"
#include "schedule/op_matches.h"
#include "sim/collectives.h"
#include "schedule/offload_flows.h"
#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

const std::vector<Rank> kRing = {Rank{4}, Rank{2}, Rank{7}, Rank{1}};

Cluster nodes_of(std::int64_t gpus, std::int64_t nics) {
    Cluster c;
    c.nodes = 4;
    c.gpus_per_node = gpus;
    c.network.nics = nics;
    return c;
}

const Cluster kOneNode = nodes_of(8, 4);

std::string flows_of(CollectiveKind kind, std::int64_t bytes, std::uint32_t calls = 1, std::uint32_t root = 0,
                     const std::vector<Rank>& members = kRing, const Cluster& cluster = kOneNode) {
    std::vector<MemberFlow> flows;
    expand({kind, GroupId{0}, Bytes{bytes}, calls, root}, members, rails_of(members, cluster), flows);
    std::string text;
    for (const MemberFlow& f : flows) {
        text += std::to_string(index(f.from)) + ">" + std::to_string(index(f.to)) + ":" +
                std::to_string(f.bytes.value) + (f.sharers > 1 ? "/" + std::to_string(f.sharers) : "") + " ";
    }
    return text;
}

TEST(Collectives, RingsSendToTheSuccessor) {
    EXPECT_EQ(flows_of(CollectiveKind::kAllGather, 100), "4>2:75 2>7:75 7>1:75 1>4:75 ");
    EXPECT_EQ(flows_of(CollectiveKind::kReduceScatter, 100, 2), "4>2:150 2>7:150 7>1:150 1>4:150 ");
    EXPECT_EQ(flows_of(CollectiveKind::kAllReduce, 100), "4>2:150 2>7:150 7>1:150 1>4:150 ");
}

TEST(Collectives, ChainsBeginOrEndAtTheRoot) {
    EXPECT_EQ(flows_of(CollectiveKind::kBroadcast, 100, 1, 2), "7>1:100 1>4:100 4>2:100 ");
    EXPECT_EQ(flows_of(CollectiveKind::kReduce, 100, 1, 2), "1>7:100 4>1:100 2>4:100 ");
}

TEST(Collectives, AllToAllGoesStraight) {
    EXPECT_EQ(flows_of(CollectiveKind::kAllToAll, 100),
              "4>2:25 2>7:25 7>1:25 1>4:25 4>7:25 2>1:25 7>4:25 1>2:25 4>1:25 2>4:25 7>2:25 1>7:25 ");
}

const std::vector<Rank> kTwoNodes = {Rank{0}, Rank{1}, Rank{2}, Rank{3}, Rank{4}, Rank{5}, Rank{6}, Rank{7}};

TEST(Collectives, BetweenNodesOneFlowPerRail) {
    const auto gather = [](std::int64_t bytes, std::int64_t nics) {
        return flows_of(CollectiveKind::kAllGather, bytes, 1, 0, kTwoNodes, nodes_of(4, nics));
    };
    EXPECT_EQ(gather(80, 1), "0>1:70 1>2:70 2>3:70 3>4:70 4>5:70 5>6:70 6>7:70 7>0:70 ");
    // Two GPUs per adapter: out by the second, in by the first.
    EXPECT_EQ(gather(80, 2), "0>1:70 1>2:70 2>3:70 1>4:35 3>6:35 4>5:70 5>6:70 6>7:70 5>0:35 7>2:35 ");
    // Not a byte is lost.
    EXPECT_EQ(gather(80, 4),
              "0>1:70 1>2:70 2>3:70 0>4:18 1>5:18 2>6:17 3>7:17 4>5:70 5>6:70 6>7:70 4>0:18 5>1:18 6>2:17 7>3:17 ");
    EXPECT_EQ(flows_of(CollectiveKind::kBroadcast, 10, 1, 6, kTwoNodes, nodes_of(4, 2)),
              "6>7:10 5>0:5 7>2:5 0>1:10 1>2:10 2>3:10 1>4:5 3>6:5 4>5:10 ");
    EXPECT_EQ(flows_of(CollectiveKind::kAllGather, 30, 1, 0, {Rank{1}, Rank{5}, Rank{9}}, nodes_of(4, 4)),
              "1>5:20 5>9:20 9>1:20 ");
}

TEST(Collectives, AllToAllBetweenNodesSharesTheAdapterOfTheSender) {
    const std::vector<Rank> members = {Rank{0}, Rank{1}, Rank{2}, Rank{4}};
    EXPECT_EQ(flows_of(CollectiveKind::kAllToAll, 4, 1, 0, members, nodes_of(4, 2)),
              "0>1:1 1>2:1 2>4:1 4>0:1 0>2:1 1>4:1/2 2>0:1 4>1:1 0>4:1/2 1>0:1 2>1:1 4>2:1 ");
}

// What the cost model charges one member for is what the replay sends.
TEST(Collectives, MembersSendWhatTheCostModelSays) {
    for (const auto kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, CollectiveKind::kAllReduce,
                            CollectiveKind::kAllToAll, CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
        std::vector<MemberFlow> flows;
        expand({kind, GroupId{0}, 1_MiB, 3, 1}, kRing, rails_of(kRing, kOneNode), flows);
        std::map<Rank, double> sent;
        for (const MemberFlow& f : flows) sent[f.from] += static_cast<double>(f.bytes.value);
        for (const auto& [rank, bytes] : sent) EXPECT_EQ(bytes, ring_fraction(kind, 4) * 3 * 1048576) << name(kind);
    }
}

TEST(Collectives, OneMemberSendsNothing) {
    std::vector<MemberFlow> flows;
    expand({CollectiveKind::kAllReduce, GroupId{0}, 1_GiB, 1, 0}, {Rank{3}}, rails_of({Rank{3}}, kOneNode), flows);
    EXPECT_TRUE(flows.empty());
}

std::vector<OpId> members(const OpMatches& matches, OpId op) {
    const auto span = matches.members(matches.of(op));
    return {span.begin(), span.end()};
}

TEST(OpMatches, TheKthSendMeetsTheKthReceive) {
    ScheduleBuilder b(3);
    const OpId r0 = b.receive(1, 0, 1_B), s0 = b.send(0, 1, 1_B), other = b.send(0, 2, 1_B), s1 = b.send(0, 1, 1_B);
    const OpId r1 = b.receive(1, 0, 1_B), back = b.send(1, 0, 1_B), compute = b.compute(0);
    const OpMatches matches(b.schedule);
    EXPECT_EQ(members(matches, s0), (std::vector{s0, r0}));
    EXPECT_EQ(members(matches, r0), (std::vector{s0, r0}));
    EXPECT_EQ(members(matches, s1), (std::vector{s1, r1}));
    EXPECT_EQ(members(matches, other), (std::vector{other, kNoOp}));
    EXPECT_EQ(members(matches, back), (std::vector{back, kNoOp}));
    EXPECT_EQ(matches.of(compute), kNoMatch);
    EXPECT_EQ(matches.size(), 4U);
}

TEST(OpMatches, CollectivesMeetInTheOrderOfEachMember) {
    ScheduleBuilder b(2);
    b.schedule.groups[0].members = {Rank{1}, Rank{0}};  // ring order is the group's
    const OpId a0 = b.all_reduce(0), a1 = b.all_reduce(0), lone = b.lone_collective(1);
    const OpId b0 = b.all_reduce(1);
    const OpMatches matches(b.schedule);
    EXPECT_EQ(members(matches, a0), (std::vector{b0, a0}));
    EXPECT_EQ(members(matches, a1), (std::vector{kNoOp, a1}));
    EXPECT_EQ(members(matches, lone), (std::vector{lone}));
}

TEST(OpMatches, ARankOutsideItsGroupNeverMeetsAnybody) {
    ScheduleBuilder b(2);
    b.schedule.groups[0].members = {Rank{0}};
    const OpId stranger = b.all_reduce(1), member = b.all_reduce(0);
    const OpMatches matches(b.schedule);
    EXPECT_EQ(members(matches, stranger), (std::vector{stranger, kNoOp}));
    EXPECT_EQ(members(matches, member), (std::vector{member}));
}

TEST(OffloadFlows, ReloadsFindTheLastOffloadOfTheirBytes) {
    ScheduleBuilder b(1);
    const BufferId d = b.device(0, 4_KiB), h = b.buffer(0, Space::kHost, 1_KiB, 2), alone = b.host(0, 1_KiB);
    const auto out = [&](BufferId to, std::uint32_t block) {
        return b.op(0, {LaneKind::kCopyOut, kNoRank}, Copy{1_KiB}, {read(d), {to, block, block, AccessMode::kWrite}},
                    {});
    };
    const auto in = [&](std::uint32_t first, std::uint32_t last) {
        return b.op(0, {LaneKind::kCopyIn, kNoRank}, Copy{1_KiB}, {{h, first, last, AccessMode::kRead}, write(d)}, {});
    };
    const OpId early = in(0, 0);  // before anything was written
    const OpId out0 = out(h, 0), nobody = out(alone, 0), out1 = out(h, 1);
    const OpId in1 = in(1, 1), in0 = in(0, 0), again = in(0, 0);
    const OpId out0_later = out(h, 0), in0_later = in(0, 0);
    const std::vector<std::uint32_t> flows = offload_flows(b.schedule);
    const auto flow = [&](OpId op) { return flows[index(op)]; };
    EXPECT_EQ(flow(early), 0U);
    EXPECT_EQ(flow(out0), 1U);
    EXPECT_EQ(flow(nobody), 0U);
    EXPECT_EQ(flow(out1), 2U);
    EXPECT_EQ(flow(in1), 2U);
    EXPECT_EQ(flow(in0), 1U);
    EXPECT_EQ(flow(again), 1U);
    EXPECT_EQ(flow(out0_later), 3U);
    EXPECT_EQ(flow(in0_later), 3U);
}

}  // namespace
}  // namespace sluice

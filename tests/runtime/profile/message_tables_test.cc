// Tables from times of messages: times are made up from the cost model, which must foretell them again.
#include "runtime/profile/message_tables.h"

#include <gtest/gtest.h>

#include "models/collective_cost.h"

namespace sluice {
namespace {

Calibration rates() {
    Calibration c;
    c.collective_call = Seconds{20e-6}, c.collective_step = Seconds{2.5e-6};
    c.nvlink_collective = {{1_KiB, BytesPerSecond{1e9}}, {1_MiB, BytesPerSecond{60e9}}, {1_GiB, BytesPerSecond{350e9}}};
    c.network_collective = {{1_MiB, BytesPerSecond{20e9}}, {1_GiB, BytesPerSecond{45e9}}};
    return c;
}

MessageFigure figure(MessageKind kind, std::size_t members, std::size_t rails, Bytes size, const Calibration& c) {
    const Collective call{collective_kind(kind), GroupId{0}, size, 1};
    return {kind, members, rails, size, collective_time(call, members, rails > 0, c, std::max<std::size_t>(1, rails))};
}

constexpr MessageKind kRings[] = {MessageKind::kAllGather, MessageKind::kReduceScatter, MessageKind::kAllReduce};

TEST(MessageTables, WhatTheModelMadeIsFoundAgain) {
    const Calibration made = rates();
    std::vector<MessageFigure> figures;
    for (const MessageKind kind : kRings)
        for (const std::size_t members : {2, 4, 8})
            for (std::int64_t size = 1024; size <= (1_GiB).value; size *= 8)
                figures.push_back(figure(kind, members, 0, Bytes{size}, made));
    figures.push_back({MessageKind::kAllToAll, 8, 0, 1_MiB, Seconds{1}});  // not for a table of rings
    figures.push_back({MessageKind::kSendReceive, 8, 0, 1_MiB, Seconds{1}});
    const CollectiveTables tables = collective_tables(figures, {});
    EXPECT_TRUE(tables.latency_measured);
    EXPECT_NEAR(tables.latency.call.value, 20e-6, 1e-6);
    EXPECT_NEAR(tables.latency.step.value, 2.5e-6, 0.5e-6);  // what 1 KiB takes beyond it counts, too
    EXPECT_TRUE(tables.across.empty());
    Calibration found;
    found.collective_call = tables.latency.call, found.collective_step = tables.latency.step;
    found.nvlink_collective = tables.inside;
    for (const MessageFigure& f : figures) {
        if (f.kind == MessageKind::kAllToAll || f.kind == MessageKind::kSendReceive || f.size < 64_KiB) continue;
        EXPECT_NEAR(figure(f.kind, f.members, 0, f.size, found).time / f.time, 1, 0.12) << f.size.value;
    }
}

// Small calls: what two H200 take (validation/h200.md), as long for one hop as for two; a call that costs nothing; and
// groups that cannot tell.
TEST(MessageTables, TheLatencyIsALineThroughTheLeastTimesByHops) {
    struct Case {
        double gather, reduce;  // us, of one hop and of two
        double call, step;
    };
    for (const Case& c : {Case{66, 66, 66, 0}, {20, 25, 15, 5}, {5, 10, 0, 5}, {40, 36, 37.8, 0}, {5, 15, 0, 5.77}}) {
        const std::vector<MessageFigure> figures = {{MessageKind::kAllGather, 2, 0, 4_KiB, Seconds{c.gather * 1e-6}},
                                                    {MessageKind::kAllGather, 2, 0, 16_KiB, Seconds{c.gather * 1.1e-6}},
                                                    {MessageKind::kAllReduce, 2, 0, 4_KiB, Seconds{c.reduce * 1e-6}}};
        const CollectiveLatency found = collective_tables(figures, {}).latency;
        EXPECT_NEAR(found.call.value, c.call * 1e-6, 0.2e-6) << c.gather << ", " << c.reduce;
        EXPECT_NEAR(found.step.value, c.step * 1e-6, 0.2e-6) << c.gather << ", " << c.reduce;
    }
    const std::vector<MessageFigure> alike = {{MessageKind::kAllGather, 8, 0, 4_KiB, Seconds{35e-6}},
                                              {MessageKind::kReduceScatter, 8, 0, 4_KiB, Seconds{35e-6}}};
    const CollectiveLatency found = collective_tables(alike, {}).latency;
    EXPECT_EQ(found.call.value, 0);
    EXPECT_NEAR(found.step.value, 5e-6, 1e-12);
}

TEST(MessageTables, AcrossNodesTheRateIsOfOneAdapter) {
    Calibration made = rates();
    made.nvlink_collective.clear();  // not what bounds
    std::vector<MessageFigure> figures;
    for (std::int64_t size = (1_MiB).value; size <= (1_GiB).value; size *= 8)
        figures.push_back(figure(MessageKind::kAllGather, 16, 8, Bytes{size}, made));
    const CollectiveTables tables = collective_tables(figures, {made.collective_call, made.collective_step});
    EXPECT_FALSE(tables.latency_measured);  // no call is small enough
    EXPECT_EQ(tables.latency.call, made.collective_call);
    EXPECT_EQ(tables.latency.step, made.collective_step);
    EXPECT_TRUE(tables.inside.empty());
    ASSERT_EQ(tables.across.size(), 4U);
    EXPECT_NEAR(tables.across.front().bus_bandwidth.value, 20e9, 1e6);
    EXPECT_NEAR(tables.across.back().bus_bandwidth.value, bus_bandwidth(512_MiB, true, made).value, 1e6);
}

TEST(MessageTables, AllToAllCountsWhereThereIsNothingElse) {
    const std::vector<MessageFigure> figures = {{MessageKind::kAllToAll, 4, 0, 4_MiB, Seconds{1e-3}}};
    const CollectiveTables tables = collective_tables(figures, {{}, Seconds{1e-6}});
    ASSERT_EQ(tables.inside.size(), 1U);
    EXPECT_NEAR(tables.inside[0].bus_bandwidth.value, 0.75 * 4194304 / (1e-3 - 3e-6), 1);
}

TEST(MessageTables, OfACallSomethingMovesHoweverManyStepsItHas) {
    const std::vector<MessageFigure> figures = {{MessageKind::kAllGather, 2, 0, 1_MiB, Seconds{1e-6}}};
    EXPECT_NEAR(collective_tables(figures, {{}, Seconds{1}}).inside[0].bus_bandwidth.value, 524288 / 0.05e-6, 1e6);
}

TEST(MessageTables, TransfersFollowTheLineOfLargeOnes) {
    std::vector<MessageFigure> figures;
    const auto add = [&](Bytes size, double time) {
        figures.push_back({MessageKind::kSendReceive, 2, 0, size, Seconds{time}});
    };
    add(1_KiB, 1e-3);
    EXPECT_FALSE(transfer_line(figures, false));
    add(1_KiB, 1e-3);
    EXPECT_FALSE(transfer_line(figures, false));  // one size alone has no line
    for (const Bytes size : {1_MiB, 16_MiB, 256_MiB}) add(size, 17e-6 + static_cast<double>(size.value) / 350e9);
    const auto line = transfer_line(figures, false);
    ASSERT_TRUE(line);
    EXPECT_NEAR(line->bandwidth.value, 350e9, 1e6);
    EXPECT_NEAR(line->latency.value, 17e-6, 1e-9);
    EXPECT_FALSE(transfer_line(figures, true));
}

}  // namespace
}  // namespace sluice

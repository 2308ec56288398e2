#include "validation/step_chain.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/traces/example_trace.h"
#include "tests/traces/random_trace.h"
#include "tests/traces/trace_builder.h"

namespace sluice {
namespace {

// "runs 3 data 1-2": kind, op, wait, from and to in seconds.
std::string text(const ChainLink& link) {
    const char* kinds[] = {"runs", "gap", "unknown"};
    const char* waits[] = {"none", "lane", "data", "reuse", "match"};
    const auto number = [](Nanoseconds t) {
        std::string digits = std::to_string(t.value / 100000000);
        return digits.substr(0, digits.size() - 1) + (digits.size() > 1 ? "." : "0.") + digits.back();
    };
    return std::string(kinds[static_cast<int>(link.kind)]) + " " +
           (link.op == kNoOp ? "-" : std::to_string(index(link.op))) + " " + waits[static_cast<int>(link.wait)] + " " +
           number(link.begin) + "-" + number(link.end);
}

std::vector<std::string> texts(const Trace& trace) {
    std::vector<std::string> lines;
    for (const ChainLink& link : step_chain(trace)) lines.push_back(text(link));
    return lines;
}

using Lines = std::vector<std::string>;

// docs/traces.md draws this step: B waited for R, R for its partner, which waited for the compute of rank 1 ...
TEST(StepChain, OfTheExample) {
    EXPECT_EQ(texts(example_trace()),
              (Lines{"runs 0 data 0.0-2.0", "runs 1 reuse 2.0-4.0", "runs 4 data 4.0-6.0", "runs 8 data 6.0-7.0",
                     "runs 9 data 7.0-8.0", "runs 11 data 8.0-9.0", "runs 12 none 9.0-10.0"}));
}

TEST(StepChain, TimeBetweenABlockersEndAndABeginIsAGap) {
    TraceBuilder t;
    const std::uint32_t lane = t.lane(0, LaneRole::kCompute);
    const OpId first = t.op(lane, 0.5, 1);
    const OpId second = t.op(lane, 1.5, 2, after_lane(first));
    t.op(lane, 2, 3, data(second));
    t.trace.step = Seconds{4};
    EXPECT_EQ(texts(t.trace), (Lines{"gap 0 none 0.0-0.5", "runs 0 lane 0.5-1.0", "gap 1 lane 1.0-1.5",
                                     "runs 1 data 1.5-2.0", "runs 2 none 2.0-3.0", "unknown - none 3.0-4.0"}));
}

// A receive that was entered early does nothing until its partner comes.
TEST(StepChain, APartnerThatComesLateHoldsUpTheOther) {
    TraceBuilder t;
    const std::uint32_t compute = t.lane(0, LaneRole::kCompute), send = t.lane(0, LaneRole::kSend, Rank{1}),
                        receive = t.lane(1, LaneRole::kReceive, Rank{0});
    const OpId work = t.op(compute, 0, 3);
    const OpId sent = t.op(send, 3, 4, data(work));
    t.op(receive, 1, 5, match(sent));
    EXPECT_EQ(texts(t.trace), (Lines{"runs 0 data 0.0-3.0", "runs 2 none 3.0-5.0"}));
}

TEST(StepChain, ACircleOfBlockersEnds) {
    TraceBuilder t;
    const std::uint32_t compute = t.lane(0, LaneRole::kCompute), out = t.lane(0, LaneRole::kCopyOut);
    t.op(compute, 1, 2, data(OpId{1}));
    t.op(out, 1, 2, data(OpId{0}));
    EXPECT_EQ(texts(t.trace).front(), "unknown 0 data 0.0-1.0");
}

TEST(StepChain, OfATraceWithoutEvents) {
    Trace trace;
    EXPECT_TRUE(step_chain(trace).empty());
    trace.step = Seconds{1};
    EXPECT_EQ(texts(trace), Lines{"unknown - none 0.0-1.0"});
}

TEST(StepChain, CoversEveryNanosecondOnce) {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        const Trace trace = random_trace(seed, {1 + seed % 4, 5 + seed, seed % 3 != 0});
        Nanoseconds at{0};
        for (const ChainLink& link : step_chain(trace)) {
            ASSERT_EQ(link.begin, at) << seed;
            ASSERT_GT(link.end, link.begin) << seed;
            at = link.end;
        }
        ASSERT_EQ(at, to_nanoseconds(trace.step)) << seed;
    }
}

// A replay never waits without a reason.
TEST(StepChain, OfAReplayHasNoGaps) {
    for (std::uint32_t seed = 0; seed < 50; ++seed)
        for (const ChainLink& link : step_chain(random_trace(seed)))
            ASSERT_EQ(link.kind, LinkKind::kRuns) << seed << " " << text(link);
}

}  // namespace
}  // namespace sluice

// A failure and what processes had in flight, as the one line that all end with.
#include "runtime/rendezvous/job_failure.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

constexpr JobFailure::Clock::time_point kNow{};

TEST(JobFailure, TellsWhatWasInFlightByProcess) {
    JobFailure failure(FailureKind::kEnvironment, "rank 1: the disk is full", 4, kNow);
    EXPECT_EQ(failure.verdict().line, "rank 1: the disk is full");
    failure.report(3, "rank 3: op 9");
    failure.report(0, "rank 0: op 4");
    failure.report(2, "");
    EXPECT_EQ(failure.verdict().line, "rank 1: the disk is full; in flight: rank 0: op 4; rank 3: op 9");
    EXPECT_EQ(failure.verdict().kind, FailureKind::kEnvironment);
    failure.report(0, "rank 0: nothing");  // what comes last
    EXPECT_EQ(failure.verdict().line, "rank 1: the disk is full; in flight: rank 0: nothing; rank 3: op 9");
    EXPECT_EQ(failure.age(kNow + std::chrono::seconds(2)), std::chrono::seconds(2));
}

// Whatever processes say, their number included: a line has an end, and room for something of everybody.
TEST(JobFailure, IsCutToALine) {
    const std::string much(100'000, 'x');
    for (const std::size_t processes : {1U, 8U, 128U, 1024U}) {
        JobFailure failure(FailureKind::kInternal, much, processes, kNow);
        EXPECT_EQ(failure.message().size(), kLongestMessage);
        EXPECT_TRUE(failure.message().ends_with("x ..."));
        for (std::uint32_t p = 0; p < processes; ++p) failure.report(p, much);
        const std::string text = JobFailure::cut_in_flight(much, processes);
        EXPECT_LE(text.size(), kLongestInFlight);
        EXPECT_GE(text.size(), 40U);
        EXPECT_EQ(JobFailure::cut_in_flight("rank 3: op 9", processes), "rank 3: op 9");
        EXPECT_LE(failure.verdict().line.size(), kLongestMessage + 12000 + processes * 50 + 20);
    }
}

}  // namespace
}  // namespace sluice

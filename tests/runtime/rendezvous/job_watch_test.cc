#include "runtime/rendezvous/job_watch.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Three processes, lost after 4 s, stuck after 5 s. Times count from the begin.
class JobWatchTest : public ::testing::Test {
protected:
    JobWatch::Time at(int ms) const { return JobWatch::Time{} + seconds(1000) + milliseconds(ms); }
    void all_progress(bool in_step, std::uint64_t ended, int ms) {
        for (std::uint32_t p = 0; p < 3; ++p) watch_.progressed(p, {in_step, false, ended}, at(ms));
    }
    std::string alarm(int ms) const {
        const auto found = watch_.check(at(ms));
        return found ? found->message : "";
    }

    JobWatch watch_{{"rank 0", "rank 1", "rank 2"}, {seconds(4), seconds(5)}, at(0)};
};

TEST_F(JobWatchTest, who_says_nothing_is_lost) {
    all_progress(false, 0, 1000);
    watch_.heard(1, at(3000));
    EXPECT_EQ(alarm(5000), "");
    EXPECT_EQ(alarm(5001),
              "rank 2 has said nothing for 4.0 s: the machine or the network is down, or the process was stopped");
    watch_.leave(2);
    EXPECT_EQ(alarm(5001), "");
    EXPECT_EQ(watch_.check(at(7001))->process, 1U);
}

TEST_F(JobWatchTest, process_0_is_never_lost_to_itself) {
    watch_.leave(1), watch_.leave(2);
    EXPECT_EQ(alarm(100000), "");
}

TEST_F(JobWatchTest, the_job_is_stuck_when_nobody_moves_in_a_step) {
    all_progress(true, 10, 1000);
    watch_.progressed(1, {true, false, 11}, at(2500));
    for (int ms = 3000; ms <= 7500; ms += 500) {
        watch_.progressed(0, {true, false, 10}, at(ms)), watch_.progressed(2, {true, false, 10}, at(ms));
        watch_.progressed(1, {true, false, 11}, at(ms));
        EXPECT_EQ(alarm(ms), "") << ms;
    }
    EXPECT_EQ(alarm(7501),
              "no op of any rank has ended for 5.0 s: the step is stuck; rank 0 has been still for longest, 6.5 s");
    watch_.progressed(2, {true, false, 11}, at(7600));
    EXPECT_EQ(alarm(7601), "");
}

// It may still come to what the others wait for.
TEST_F(JobWatchTest, nobody_is_stuck_while_one_is_outside_a_step) {
    all_progress(true, 10, 0);
    watch_.progressed(1, {false, false, 10}, at(100));
    for (int ms = 1000; ms <= 60000; ms += 1000) {
        for (std::uint32_t p = 0; p < 3; ++p) watch_.heard(p, at(ms));
        EXPECT_EQ(alarm(ms), "");
    }
    watch_.progressed(1, {true, false, 10}, at(60500));  // the clock begins when it comes back
    for (std::uint32_t p = 0; p < 3; ++p) watch_.heard(p, at(65000));
    EXPECT_EQ(alarm(65500), "");
    EXPECT_NE(alarm(65501), "");
}

// One hangs in its last op, the others have ended the step.
TEST_F(JobWatchTest, waiting_for_others_is_no_excuse) {
    all_progress(true, 10, 0);
    for (const std::uint32_t p : {0U, 2U}) watch_.progressed(p, {false, true, 20}, at(1000));
    for (std::uint32_t p = 0; p < 3; ++p) watch_.heard(p, at(5000));
    EXPECT_EQ(alarm(5000), "");
    EXPECT_EQ(alarm(5001),
              "no op of any rank has ended for 5.0 s: the step is stuck; rank 1 has been still for longest, 5.0 s");
}

TEST(JobWatchOf, several_ranks_of_one_process_are_many) {
    const JobWatch::Time begin{};
    JobWatch watch({"ranks 0 to 1"}, {seconds(4), seconds(5)}, begin);
    watch.progressed(0, {true, false, 1}, begin);
    EXPECT_EQ(watch.check(begin + seconds(6))->message,
              "no op of any rank has ended for 6.0 s: the step is stuck; ranks 0 to 1 have been still for longest, 6.0 s");
}

TEST(JobWatchOf, a_limit_of_0_means_never) {
    const JobWatch::Time begin{};
    JobWatch watch({"rank 0"}, {seconds(4), seconds(0)}, begin);
    watch.progressed(0, {true, false, 1}, begin);
    EXPECT_FALSE(watch.check(begin + seconds(1000)));
}

TEST(JobWatch, SaysWhatAgreesWithSeveralRanks) {
    EXPECT_EQ(
        silence_message("ranks 2 to 3", seconds(4)),
        "ranks 2 to 3 have said nothing for 4.0 s: the machine or the network is down, or the process was stopped");
}

}  // namespace
}  // namespace sluice

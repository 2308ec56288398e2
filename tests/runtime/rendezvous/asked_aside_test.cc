#include "runtime/rendezvous/asked_aside.h"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <stdexcept>
#include <thread>

namespace sluice {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{5000}, kMoment{20};

TEST(AskedAside, answers_anew_every_time) {
    int asked = 0;
    AskedAside<int> aside([&] { return ++asked; });
    EXPECT_EQ(aside.last(), 0);
    for (int i = 1; i <= 3; ++i) {
        EXPECT_TRUE(aside.ask(kLong));
        EXPECT_EQ(aside.last(), i);
    }
}

// A question that is under way is not put again. Its answer, when it comes, is the last one.
TEST(AskedAside, does_not_wait_for_an_answer_that_takes_long) {
    std::counting_semaphore<> may_answer(1);
    std::atomic<int> asked{0};
    AskedAside<int> aside([&] {
        const int number = ++asked;
        may_answer.acquire();
        return number;
    });
    EXPECT_TRUE(aside.ask(kLong));
    EXPECT_FALSE(aside.ask(kMoment));
    while (asked < 2) std::this_thread::yield();
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(aside.ask(kMoment));
    EXPECT_EQ(aside.last(), 1);
    EXPECT_EQ(asked, 2);
    may_answer.release(2);
    EXPECT_TRUE(aside.ask(kLong));  // for the answer that is late, then for its own
    EXPECT_EQ(aside.last(), 3);
}

TEST(AskedAside, an_exception_is_no_answer) {
    std::atomic<bool> broken{false};
    AskedAside<int> aside([&] { return broken ? throw std::runtime_error("the device has failed") : 7; });
    EXPECT_TRUE(aside.ask(kLong));
    broken = true;
    EXPECT_FALSE(aside.ask(kLong));
    EXPECT_EQ(aside.last(), 7);
    broken = false;
    EXPECT_TRUE(aside.ask(kLong));
}

// Others are not kept waiting meanwhile.
TEST(AskedAside, ends_when_the_last_answer_has_come) {
    std::binary_semaphore begun(0), may_answer(0);
    std::atomic<bool> ended{false};
    AskedAside<int> aside([&] {
        begun.release();
        may_answer.acquire();
        return 5;
    });
    EXPECT_FALSE(aside.ask(kMoment));
    begun.acquire();
    std::jthread ends([&] {
        aside.end();
        ended = true;
    });
    std::this_thread::sleep_for(kMoment);
    EXPECT_FALSE(ended);
    EXPECT_FALSE(aside.ask(kMoment));
    may_answer.release();
    ends.join();
    EXPECT_EQ(aside.last(), 5);
    EXPECT_FALSE(aside.ask(kLong));
}

}  // namespace
}  // namespace sluice

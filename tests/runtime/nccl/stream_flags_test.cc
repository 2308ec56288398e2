// The driver's flags of streams: needs a GPU.
#include "runtime/cuda/stream_flags.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "runtime/cuda/stream_events.h"
#include "runtime/nccl/shared_page.h"

namespace sluice::cuda {
namespace {

class StreamFlagsOnGpu : public testing::Test {
protected:
    void SetUp() override {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
        ASSERT_NE(stream_flags(), nullptr);
        page = std::make_unique<SharedPage>(SharedPage::make(sizeof(Flag)));
        ASSERT_TRUE(stream_flags()->pin(page->pages()));
        flag = reinterpret_cast<Flag*>(page->bytes().data());
    }
    void TearDown() override {
        if (page) stream_flags()->unpin(page->pages());
    }

    static bool passes(Event event) {
        for (int i = 0; i < 2000 && !happened(event); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return happened(event);
    }
    static bool stays(Event event) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return !happened(event);
    }

    std::unique_ptr<SharedPage> page;
    Flag* flag = nullptr;
};

TEST_F(StreamFlagsOnGpu, HoldAStreamUntilAnotherSetsThem) {
    const OwnedStream waits, sets;
    const Events events(2);
    for (const std::uint32_t value : {2U, 3U}) {
        stream_flags()->wait(waits.get(), flag, value);
        record(events[0], waits.get());
        EXPECT_TRUE(stays(events[0])) << value;
        stream_flags()->set(sets.get(), flag, value);
        EXPECT_TRUE(passes(events[0])) << value;
        EXPECT_EQ(flag->value, value);
    }
    stream_flags()->wait(waits.get(), flag, 1);  // long past
    record(events[1], waits.get());
    EXPECT_TRUE(passes(events[1]));
}

// As when a run has failed: the host lets them pass, round the end of the numbers, too.
TEST_F(StreamFlagsOnGpu, LetPassWhatTheHostAllows) {
    const OwnedStream waits;
    const Events events(1);
    flag->value = 0xFFFFFFF0U;
    stream_flags()->wait(waits.get(), flag, 5);
    record(events[0], waits.get());
    EXPECT_TRUE(stays(events[0]));
    flag->value = 5U + (1U << 30);
    EXPECT_TRUE(passes(events[0]));
}

// Of another GPU.
TEST_F(StreamFlagsOnGpu, AreSeenByEveryGpu) {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) GTEST_SKIP() << "needs two GPUs";
    cudaSetDevice(1);
    auto sets = std::make_unique<OwnedStream>();
    cudaSetDevice(0);
    const OwnedStream waits;
    const Events events(1);
    stream_flags()->wait(waits.get(), flag, 1);
    record(events[0], waits.get());
    EXPECT_TRUE(stays(events[0]));
    cudaSetDevice(1);
    stream_flags()->set(sets->get(), flag, 1);
    EXPECT_TRUE(passes(events[0]));
    sets.reset();
    cudaSetDevice(0);
}

}  // namespace
}  // namespace sluice::cuda

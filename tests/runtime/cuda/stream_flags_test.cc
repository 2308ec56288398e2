// The driver's flags of streams: needs a GPU.
#include "runtime/cuda/stream_flags.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <thread>

#include "runtime/cuda/stream_events.h"

namespace sluice::cuda {
namespace {

class StreamFlagsOnGpu : public testing::Test {
protected:
    void SetUp() override {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU";
        ASSERT_NE(stream_flags(), nullptr);
        page = std::make_unique<Page>();
        ASSERT_TRUE(stream_flags()->pin(std::as_writable_bytes(std::span(page->flags))));
        flag = page->flags.data();
    }
    void TearDown() override {
        if (page) stream_flags()->unpin(std::as_writable_bytes(std::span(page->flags)));
    }

    static bool passes(Event event) {
        for (int i = 0; i < 2000 && !happened(event); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return happened(event);
    }
    static bool stays(Event event) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return !happened(event);
    }

    struct alignas(4096) Page {
        std::array<Flag, 64> flags{};
    };
    std::unique_ptr<Page> page;
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

// What a stream that waits for a flag holds up on its GPU. Receives are held back so (runtime/nccl/receive_gates.h),
// and a rank goes on issuing meanwhile: that must not wait for the flag, once everything has run.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/stream_events.h"
#include "runtime/cuda/stream_flags.h"
#include "tests/runtime/cuda/device_attention.h"

namespace sluice::cuda {
namespace {

// A stream that waits as long as this exists, or until the time is over.
class HeldStream {
public:
    HeldStream(Flag& flag, std::uint32_t value, std::chrono::milliseconds at_most) : flag_(flag), value_(value) {
        stream_flags()->wait(stream_.get(), &flag, value);
        guard_ = std::thread([this, at_most] {
            std::unique_lock lock(mutex_);
            time_over_ = !ended_.wait_for(lock, at_most, [this] { return over_; });
            flag_.value = value_;
        });
    }
    ~HeldStream() {
        if (guard_.joinable()) end();
    }
    HeldStream(const HeldStream&) = delete;
    HeldStream& operator=(const HeldStream&) = delete;
    // Whether it ended before the time was over.
    bool end() {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        ended_.notify_one();
        guard_.join();
        stream_.wait();
        return !time_over_;
    }

private:
    Flag& flag_;
    const std::uint32_t value_;
    const OwnedStream stream_;
    std::mutex mutex_;
    std::condition_variable ended_;
    bool over_ = false, time_over_ = false;
    std::thread guard_;
};

struct alignas(4096) FlagPage {
    Flag flag;
};

class WhileAStreamWaits : public LibraryOnDevice {
protected:
    void SetUp() override {
        LibraryOnDevice::SetUp();
        if (IsSkipped()) return;
        ASSERT_NE(stream_flags(), nullptr);
        page_ = std::make_unique<FlagPage>();
        ASSERT_TRUE(stream_flags()->pin(std::as_writable_bytes(std::span(page_.get(), 1))));
    }
    void TearDown() override {
        if (page_) stream_flags()->unpin(std::as_writable_bytes(std::span(page_.get(), 1)));
        LibraryOnDevice::TearDown();
    }

    // `put` puts work on the default stream. The first time that may wait for the whole GPU: whether it does is printed.
    // The second time work is put there and done while the other stream still waits.
    template <class Put>
    void expect_done_meanwhile(const char* what, const Put& put) {
        const auto done_meanwhile = [&](std::chrono::milliseconds at_most) {
            HeldStream held(page_->flag, ++value_, at_most);
            put();
            must(cudaStreamSynchronize(nullptr), what);
            return held.end();
        };
        const bool first = done_meanwhile(std::chrono::milliseconds(500));
        std::cout << "  " << what << ": the first time " << (first ? "done meanwhile" : "it waits for the GPU") << "\n";
        EXPECT_TRUE(done_meanwhile(std::chrono::seconds(10))) << what;
    }

private:
    std::unique_ptr<FlagPage> page_;
    std::uint32_t value_ = 0;
};

TEST_F(WhileAStreamWaits, WhatHasRunOnceRunsOnOtherStreams) {
    const DeviceArray<Bf16> a(256 * 256), b(256 * 256), c(256 * 256);
    const Bf16Matrix x(a.data(), 256, 256), y(b.data(), 256, 256), z(c.data(), 256, 256);
    expect_done_meanwhile("cudaMemsetAsync", [&] { must(cudaMemsetAsync(a.data(), 0, 1024, nullptr), "clear"); });
    expect_done_meanwhile("an event", [&] {
        const Events events(1);
        record(events[0], nullptr);
        wait_for(nullptr, events[0]);
    });
    expect_done_meanwhile("a kernel of ours", [&] { residual_add(nullptr, x, y, z); });

    Gemms gemms;
    gemms.prepare(gemm_shape(Transpose::kNo, x, Transpose::kYes, y, z, Store::kOverwrite), nullptr, {});
    expect_done_meanwhile("a product",
                          [&] { gemms.run(nullptr, Transpose::kNo, x, Transpose::kYes, y, z, Store::kOverwrite); });

    const AttentionInput input{256, 256, 4, 2, 64};
    AttentionOnDevice attention(input, std::vector<float>(size_of(input.keys(), 2 * input.kv_width())));
    expect_done_meanwhile("attention forward", [&] { attention.forward(); });
    expect_done_meanwhile("attention backward", [&] { attention.backward(true); });
}

}  // namespace
}  // namespace sluice::cuda

#include "runtime/profile/copy_bench.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/cpu/gemm.h"
#include "runtime/cpu/residual_add.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

Seconds since(Clock::time_point begin) { return Seconds{std::chrono::duration<double>(Clock::now() - begin).count()}; }

constexpr std::size_t kRegion = std::size_t{128} << 20;

// A source and a target, touched.
struct Regions {
    std::vector<std::byte> from = std::vector<std::byte>(kRegion, std::byte{1});
    std::vector<std::byte> to = std::vector<std::byte>(kRegion, std::byte{2});

    // The k-th copy of `bytes`: the next place of the regions, round and round.
    void copy(std::size_t k, std::size_t bytes) {
        const std::size_t places = kRegion / bytes, at = k % places * bytes;
        std::memcpy(to.data() + at, from.data() + at, bytes);
    }
};

// Threads that copy until told to stop. They are copying when the constructor returns.
class Copiers {
public:
    Copiers(std::size_t count, std::size_t block) : regions_(count) {
        for (std::size_t i = 0; i < count; ++i) {
            threads_.emplace_back([this, i, block] {
                for (std::size_t k = 0; !stop_.load(std::memory_order_relaxed); ++k) {
                    regions_[i].copy(k, block);
                    if (k == 0) running_.fetch_add(1);
                }
            });
        }
        while (running_.load() < count) std::this_thread::yield();
    }
    ~Copiers() {
        stop_ = true;
        for (std::thread& thread : threads_) thread.join();
    }
    Copiers(const Copiers&) = delete;
    Copiers& operator=(const Copiers&) = delete;

private:
    std::vector<Regions> regions_;
    std::atomic<bool> stop_{false};
    std::atomic<std::size_t> running_{0};
    std::vector<std::thread> threads_;
};

// Copies on this thread for a while; samples of 16 copies each.
Measurement copy_time(Regions& regions, std::size_t block, Seconds for_all) {
    constexpr std::size_t kCopies = 16;
    for (std::size_t k = 0; k < kRegion / block; ++k) regions.copy(k, block);  // pages of both
    std::vector<Seconds> samples;
    std::size_t k = 0;
    for (const auto begin = Clock::now(); samples.size() < 3 || since(begin) < for_all;) {
        const auto sample = Clock::now();
        for (std::size_t i = 0; i < kCopies; ++i) regions.copy(k++, block);
        samples.push_back(since(sample) / static_cast<double>(kCopies));
    }
    return measurement_of(std::move(samples));
}

// Of this thread, while `others` threads copy, too.
Measurement copy_time_beside(std::size_t others, std::size_t block, Seconds for_all) {
    Regions own;
    const Copiers copiers(others, block);
    return copy_time(own, block, for_all);
}

// Wall time of the median call.
Seconds time_of(const std::function<void()>& call, Seconds for_all) {
    call();
    std::vector<Seconds> samples;
    for (const auto begin = Clock::now(); samples.size() < 5 || since(begin) < for_all;) {
        const auto sample = Clock::now();
        call();
        samples.push_back(since(sample));
    }
    return measurement_of(std::move(samples)).median;
}

// A counter on which a thread sleeps.
struct Bell {
    std::mutex mutex;
    std::condition_variable rung;
    int count = 0;

    void ring() {
        {
            const std::lock_guard lock(mutex);
            ++count;
        }
        rung.notify_one();
    }
    void wait_for(int target) {
        std::unique_lock lock(mutex);
        rung.wait(lock, [&] { return count >= target; });
    }
};

// Round trips to a thread that does `work` each time.
Measurement round_trips(const std::function<void(int)>& work, Seconds for_all) {
    constexpr int kTrips = 16;
    Bell there, back;
    std::atomic<bool> stop{false};
    std::thread other([&] {
        for (int i = 1;; ++i) {
            there.wait_for(i);
            if (stop) return;
            work(i);
            back.ring();
        }
    });
    std::vector<Seconds> samples;
    int trip = 0;
    for (const auto begin = Clock::now(); samples.size() < 5 || since(begin) < for_all;) {
        const auto sample = Clock::now();
        for (int i = 0; i < kTrips; ++i) {
            there.ring();
            back.wait_for(++trip);
        }
        samples.push_back(since(sample) / static_cast<double>(kTrips));
    }
    stop = true;
    there.ring();
    other.join();
    return measurement_of(std::move(samples));
}

}  // namespace

CopyRates copy_rates(std::size_t cores, Bytes block, Seconds for_each) {
    const auto bytes = static_cast<std::size_t>(block.value);
    CopyRates rates;
    const Measurement alone = copy_time_beside(0, bytes, for_each);
    rates.one = block / alone.median;
    rates.spread = alone.spread();
    rates.both = 2.0 * (block / copy_time_beside(1, bytes, for_each).median);
    rates.all_cores = std::max(rates.one, static_cast<double>(cores) *
                                              (block / copy_time_beside(cores - 1, bytes, for_each).median));
    Regions regions;
    rates.start =
        round_trips([&](int k) { regions.copy(static_cast<std::size_t>(k), 4096); }, for_each).median;
    return rates;
}

CopyInterference copy_interference(Seconds for_each) {
    constexpr std::int64_t kSide = 512, kRows = 2048;
    constexpr std::size_t kBlock = std::size_t{1} << 20;
    std::vector<float> a(kRows * kSide, 0.5F), b(kRows * kSide, 0.25F), c(kRows * kSide, 0);
    const auto product = [&] {
        gemm(Transpose::kNo, {a.data(), kSide, kSide}, Transpose::kYes, {b.data(), kSide, kSide},
             {c.data(), kSide, kSide});
    };
    const auto add = [&] { residual_add({a.data(), kRows, kSide}, {b.data(), kRows, kSide}, {c.data(), kRows, kSide}); };
    const Seconds product_alone = time_of(product, for_each), add_alone = time_of(add, for_each);
    const auto beside = [&](std::size_t threads, const std::function<void()>& call, Seconds alone) {
        const Copiers copiers(threads, kBlock);
        return std::clamp(alone / time_of(call, for_each), 0.01, 1.0);
    };
    return {beside(1, product, product_alone), beside(1, add, add_alone), beside(2, product, product_alone)};
}

Measurement handover(Seconds for_all) { return round_trips([](int) {}, for_all) * 0.5; }

}  // namespace sluice

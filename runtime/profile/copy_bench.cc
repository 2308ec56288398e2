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

enum class Timing { kThread, kWall };

Timing timing_of(std::size_t threads, std::size_t cores) { return threads <= cores ? Timing::kThread : Timing::kWall; }

Seconds now(Timing timing) {
    return timing == Timing::kThread ? thread_time()
                                     : Seconds{std::chrono::duration<double>(Clock::now().time_since_epoch()).count()};
}

// Samples of `calls` calls each, the mean of them.
Measurement time_of(const std::function<void()>& call, std::size_t calls, Timing timing, Seconds for_all) {
    std::vector<Seconds> samples;
    for (const auto begin = Clock::now(); samples.size() < 5 || since(begin) < for_all;) {
        const Seconds sample = now(timing);
        for (std::size_t i = 0; i < calls; ++i) call();
        samples.push_back((now(timing) - sample) / static_cast<double>(calls));
    }
    return measurement_of(std::move(samples));
}

// A source and a target, touched.
struct Regions {
    std::vector<std::byte> from, to;
    explicit Regions(Bytes size)
        : from(static_cast<std::size_t>(size.value), std::byte{1}),
          to(static_cast<std::size_t>(size.value), std::byte{2}) {}

    // The k-th copy of `bytes`: the next place of the regions, round and round.
    void copy(std::size_t k, std::size_t bytes) {
        const std::size_t places = from.size() / bytes, at = k % places * bytes;
        std::memcpy(to.data() + at, from.data() + at, bytes);
    }
};

// Threads that copy until told to stop. They are copying when the constructor returns.
class Copiers {
public:
    Copiers(std::size_t count, const CopyEffort& effort) : regions_(count, Regions(effort.region)) {
        const auto block = static_cast<std::size_t>(effort.block.value);
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

// Of a copy by this thread, while `others` threads copy, too.
Measurement copy_time(std::size_t others, std::size_t cores, const CopyEffort& effort) {
    const auto block = static_cast<std::size_t>(effort.block.value);
    Regions own(effort.region);
    const Copiers copiers(others, effort);
    std::size_t k = 0;
    return time_of([&] { own.copy(k++, block); }, 16, timing_of(others + 1, cores), effort.each);
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

CopyRates copy_rates(std::size_t cores, const CopyEffort& effort) {
    CopyRates rates;
    const Measurement alone = copy_time(0, cores, effort);
    rates.one = effort.block / alone.median;
    rates.spread = alone.spread();
    rates.both = 2.0 * (effort.block / copy_time(1, cores, effort).median);
    const BytesPerSecond each = cores == 1 ? rates.one : effort.block / copy_time(cores - 1, cores, effort).median;
    rates.all_cores = std::max(rates.one, static_cast<double>(cores) * each);
    Regions regions(effort.region);
    rates.start = round_trips([&](int k) { regions.copy(static_cast<std::size_t>(k), 4096); }, effort.each).median;
    return rates;
}

CopyInterference copy_interference(std::size_t cores, std::size_t computing, const CopyEffort& effort) {
    constexpr std::int64_t kSide = 512, kRows = 2048;
    std::vector<float> a(kRows * kSide, 0.5F), b(kRows * kSide, 0.25F), c(kRows * kSide, 0);
    const auto product = [&] {
        gemm(Transpose::kNo, {a.data(), kSide, kSide}, Transpose::kYes, {b.data(), kSide, kSide},
             {c.data(), kSide, kSide});
    };
    const auto add = [&] {
        residual_add({a.data(), kRows, kSide}, {b.data(), kRows, kSide}, {c.data(), kRows, kSide});
    };
    const auto factor = [&](std::size_t copies, const std::function<void()>& call) {
        const Timing timing = timing_of(computing + copies, cores);
        const Seconds alone = time_of(call, 1, timing, effort.each).median;
        const Copiers copiers(copies, effort);
        return std::clamp(alone / time_of(call, 1, timing, effort.each).median, 0.01, 1.0);
    };
    return {factor(1, product), factor(1, add), factor(2, product)};
}

Measurement handover(Seconds for_all) {
    return round_trips([](int) {}, for_all) * 0.5;
}

}  // namespace sluice

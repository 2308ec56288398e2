#include "runtime/profile/collective_bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/cpu/residual_add.h"
#include "runtime/profile/measurement.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kNoData = 64_B;  // two threads meet and part

// Two threads come, and go on when both are there. Sleeps like the lanes of a run do.
class Meeting {
public:
    void meet() {
        const unsigned before = arrived_.fetch_add(1);
        const unsigned both = before / 2 * 2 + 2;
        if (before + 1 == both) return arrived_.notify_all();
        for (unsigned now = before + 1; now < both; now = arrived_.load()) arrived_.wait(now);
    }

private:
    std::atomic<unsigned> arrived_{0};
};

// Of one rank: its half of a gathered tensor, the whole of it, and of an unreduced one.
struct Tensors {
    std::vector<float> whole, gathered;
};

struct Pair {
    Meeting meeting;
    std::vector<Tensors> ranks{2};
    std::int64_t half = 0;  // floats of a rank's part

    void all_gather(std::size_t rank) {
        meeting.meet();
        const std::size_t other = 1 - rank, bytes = static_cast<std::size_t>(half) * sizeof(float);
        std::memcpy(ranks[rank].gathered.data() + (other == 0 ? 0 : half), ranks[other].whole.data(), bytes);
        meeting.meet();
    }
    void reduce_scatter(std::size_t rank) {
        meeting.meet();
        const std::int64_t at = rank == 0 ? 0 : half;
        residual_add({ranks[0].whole.data() + at, 1, half}, {ranks[1].whole.data() + at, 1, half},
                     {ranks[rank].gathered.data() + at, 1, half});
        meeting.meet();
    }
};

// Both ranks call often enough; what one of them sees.
Measurement time_of(Pair& pair, void (Pair::*call)(std::size_t), std::size_t samples, std::size_t calls) {
    const auto rank = [&](std::size_t r, std::vector<Seconds>* times) {
        (pair.*call)(r);
        for (std::size_t s = 0; s < samples; ++s) {
            const auto begin = Clock::now();
            for (std::size_t i = 0; i < calls; ++i) (pair.*call)(r);
            const Seconds spent{std::chrono::duration<double>(Clock::now() - begin).count()};
            if (times != nullptr) times->push_back(spent / static_cast<double>(calls));
        }
    };
    std::thread other(rank, 1, nullptr);
    std::vector<Seconds> times;
    rank(0, &times);
    other.join();
    return measurement_of(std::move(times));
}

// All-gather and reduce-scatter of a tensor of this size.
std::vector<MessageFigure> time_both(Bytes size, Seconds for_each) {
    Pair pair;
    pair.half = size.value / 2 / static_cast<std::int64_t>(sizeof(float));
    for (Tensors& t : pair.ranks) {
        t.whole.assign(static_cast<std::size_t>(2 * pair.half), 0.5F);
        t.gathered.assign(static_cast<std::size_t>(2 * pair.half), 0);
    }
    const Seconds guess = time_of(pair, &Pair::all_gather, 3, 1).median;
    const double wanted = for_each / (std::max(guess, Seconds{1e-7}) * 2 * 15);
    const auto calls = static_cast<std::size_t>(std::clamp(wanted, 1.0, 1000.0));
    return {{MessageKind::kAllGather, 2, 0, size, time_of(pair, &Pair::all_gather, 15, calls).median},
            {MessageKind::kReduceScatter, 2, 0, size, time_of(pair, &Pair::reduce_scatter, 15, calls).median}};
}

}  // namespace

std::vector<MessageFigure> time_collectives(std::span<const Bytes> sizes, Seconds for_each) {
    std::vector<MessageFigure> figures = time_both(kNoData, for_each);
    for (const Bytes size : sizes) {
        const std::vector<MessageFigure> of_size = time_both(size, for_each);
        figures.insert(figures.end(), of_size.begin(), of_size.end());
    }
    return figures;
}

}  // namespace sluice

#include "runtime/profile/compute_load.h"

#include "runtime/cpu/gemm.h"
#include "runtime/cpu/residual_add.h"

namespace sluice {

ComputeLoad::ComputeLoad(std::size_t threads) {
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { compute(); });
    while (running_.load() < threads) std::this_thread::yield();
}

ComputeLoad::~ComputeLoad() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
}

// About what a layer does: products, and a pass over memory now and then.
void ComputeLoad::compute() {
    constexpr std::int64_t kRows = 1024, kSide = 256;
    std::vector<float> a(kRows * kSide, 0.5F), b(kSide * kSide, 0.25F), c(kRows * kSide, 0);
    running_.fetch_add(1);
    while (!stop_.load(std::memory_order_relaxed)) {
        for (int i = 0; i < 4; ++i)
            gemm(Transpose::kNo, {a.data(), kRows, kSide}, Transpose::kYes, {b.data(), kSide, kSide},
                 {c.data(), kRows, kSide});
        residual_add({c.data(), kRows, kSide}, {a.data(), kRows, kSide}, {c.data(), kRows, kSide});
    }
}

}  // namespace sluice

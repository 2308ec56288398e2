#include "runtime/cuda_profile/part_load.h"

#include <cuda_runtime_api.h>

#include "runtime/cuda/check.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/stream_events.h"
#include "runtime/cuda_profile/step_mix.h"

namespace sluice::cuda {
namespace {

constexpr std::size_t kBatch = 2;  // mixes between two looks at the clock: some 30 ms

}  // namespace

class PartLoad::Work {
public:
    explicit Work(const DevicePart& part)
        : part_(part),
          stream_(made_current(part).new_stream()),
          timer_(stream_.get()),
          gemms_(part.multiprocessors()),
          mix_(gemms_, plans_, timer_),
          ended_(2) {
        check(cudaStreamSynchronize(cudaStreamLegacy), "operands of a part's load");
        put();
        stream_.wait();
    }

    void make_current() const { part_.make_current(); }

    // Two batches are on the stream at any time: it never runs dry, and stops soon.
    void put_next() {
        const Event event = ended_[batches_++ % 2];
        if (batches_ > 2) check(cudaEventSynchronize(event), "load of a part");
        put();
        record(event, stream_.get());
    }
    void wait() const { stream_.wait(); }

private:
    static const DevicePart& made_current(const DevicePart& part) {
        part.make_current();
        return part;
    }
    void put() {
        for (std::size_t i = 0; i < kBatch; ++i) mix_.put();
    }

    const DevicePart& part_;
    OwnedStream stream_;
    GpuTimer timer_;
    Gemms gemms_;
    AttentionPlans plans_;
    StepMix mix_;
    Events ended_;
    std::size_t batches_ = 0;
};

PartLoad::PartLoad(std::span<const std::shared_ptr<const DevicePart>> parts) {
    for (const auto& part : parts) work_.push_back(std::make_unique<Work>(*part));
    for (const auto& work : work_) threads_.emplace_back([this, &work] { run(*work); });
}

PartLoad::~PartLoad() {
    stop_ = true;
    threads_.clear();
}

void PartLoad::run(Work& work) {
    try {
        work.make_current();
        while (!stop_) work.put_next();
        work.wait();
    } catch (...) {
        const std::lock_guard lock(mutex_);
        failure_ = std::current_exception();
    }
}

void PartLoad::expect_running() {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
}

}  // namespace sluice::cuda

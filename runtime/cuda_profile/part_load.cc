#include "runtime/cuda_profile/part_load.h"

#include <cuda_runtime_api.h>

#include "runtime/cuda/activation.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/stream_events.h"
#include "runtime/cuda/sustained_call.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kTokens = 8192, kHidden = 3072, kFfn = 8192;
constexpr std::size_t kBatch = 4;  // layers between two looks at the clock: some 10 ms

}  // namespace

class PartLoad::Work {
public:
    explicit Work(const DevicePart& part)
        : part_(part),
          stream_(made_current(part).new_stream()),
          gemms_(part.multiprocessors()),
          input_(Bytes{2 * kTokens * kHidden}),
          weight_(Bytes{2 * 2 * kFfn * kHidden}),
          first_(Bytes{2 * kTokens * 2 * kFfn}),
          second_(Bytes{2 * kTokens * kFfn}),
          scratch_(gemm_scratch_bytes(shape())),
          ended_(2) {
        input_.fill_at_random(), weight_.fill_at_random();
        check(cudaStreamSynchronize(cudaStreamLegacy), "operands of a part's load");
        gemms_.prepare(shape(), stream_.get(), {scratch_.data(), static_cast<std::size_t>(scratch_.size().value)});
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
    ConstBf16Matrix input() const { return {reinterpret_cast<const Bf16*>(input_.data()), kTokens, kHidden}; }
    ConstBf16Matrix weight() const { return {reinterpret_cast<const Bf16*>(weight_.data()), 2 * kFfn, kHidden}; }
    Bf16Matrix first() const { return {reinterpret_cast<Bf16*>(first_.data()), kTokens, 2 * kFfn}; }
    Bf16Matrix second() const { return {reinterpret_cast<Bf16*>(second_.data()), kTokens, kFfn}; }
    GemmShape shape() const {
        return {Transpose::kNo, Transpose::kYes, kTokens,  2 * kFfn,          kHidden,
                kHidden,        kHidden,         2 * kFfn, ResultType::kBf16, Store::kOverwrite};
    }
    void put() {
        for (std::size_t layer = 0; layer < kBatch; ++layer) {
            gemms_.run(stream_.get(), Transpose::kNo, input(), Transpose::kYes, weight(), first());
            swiglu_forward(stream_.get(), first().column_range(0, kFfn), first().column_range(kFfn, kFfn), second());
        }
    }

    const DevicePart& part_;
    OwnedStream stream_;
    Gemms gemms_;
    MeasurementMemory input_, weight_, first_, second_, scratch_;
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

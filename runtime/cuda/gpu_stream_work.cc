#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream_work.h"
#include "runtime/cuda/sum_members.h"

namespace sluice::cuda {
namespace {

class GpuStreamWork : public StreamWork {
public:
    GpuStreamWork() = default;
    ~GpuStreamWork() override {
        for (const Event event : events_) cudaEventDestroy(event);
    }
    GpuStreamWork(const GpuStreamWork&) = delete;
    GpuStreamWork& operator=(const GpuStreamWork&) = delete;

    // They take no time: a record costs less, and nothing reads it.
    Event new_event() override {
        Event event = nullptr;
        check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
        const std::lock_guard lock(mutex_);
        events_.push_back(event);
        return event;
    }
    void record(Event event, Stream stream) override { cuda::record(event, stream); }
    void wait_for(Stream stream, Event event) override { cuda::wait_for(stream, event); }
    void copy(Stream stream, const std::byte* from, std::byte* to, std::size_t bytes) override {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copy between ranks");
    }
    void sum(Stream stream, ElementType type, std::span<const std::byte* const> from, std::span<std::byte* const> into,
             std::size_t count) override {
        sum_members(stream, type, from, into, count);
    }

private:
    std::mutex mutex_;
    std::vector<Event> events_;
};

void enable_access(int from, int to) {
    int possible = 0;
    check(cudaDeviceCanAccessPeer(&possible, from, to), "access between GPUs");
    if (possible == 0)
        throw EnvironmentError(
            fmt::format("GPU {} does not reach the memory of GPU {}, expected GPUs that do", from, to));
    check(cudaSetDevice(from), "choose a GPU");
    const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled)
        static_cast<void>(cudaGetLastError());  // as it should be
    else
        check(error, "access between GPUs");
}

}  // namespace

std::unique_ptr<StreamWork> gpu_stream_work(std::span<const int> devices) {
    std::vector<int> all(devices.begin(), devices.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (const int from : all)
        for (const int to : all)
            if (from != to) enable_access(from, to);
    return std::make_unique<GpuStreamWork>();
}

}  // namespace sluice::cuda

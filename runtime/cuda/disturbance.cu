#include "runtime/cuda/check.h"
#include "runtime/cuda/disturbance.h"

namespace sluice::cuda {
namespace {

__device__ std::uint64_t global_time() {
    std::uint64_t now = 0;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

__global__ void fill_kernel(std::uint32_t* words, std::int64_t count, std::uint32_t word) {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
        words[i] = word;
}

__global__ void mark_kernel(std::uint64_t* slot) { *slot = global_time(); }

__global__ void hold_kernel(const std::uint64_t* slot, std::uint64_t nanoseconds) {
    while (global_time() - *slot < nanoseconds) __nanosleep(1000);
}

}  // namespace

void fill_words(Stream stream, std::span<std::byte> bytes, std::uint32_t word) {
    if (bytes.empty()) return;
    fill_kernel<<<1024, 256, 0, stream>>>(reinterpret_cast<std::uint32_t*>(bytes.data()),
                                          static_cast<std::int64_t>(bytes.size() / 4), word);
    check_launch("fill");
}

void mark_time(Stream stream, std::uint64_t* slot) {
    mark_kernel<<<1, 1, 0, stream>>>(slot);
    check_launch("mark");
}

void hold_until(Stream stream, const std::uint64_t* slot, std::uint64_t nanoseconds) {
    hold_kernel<<<1, 1, 0, stream>>>(slot, nanoseconds);
    check_launch("hold");
}

}  // namespace sluice::cuda

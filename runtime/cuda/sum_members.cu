#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/sum_members.h"
#include "runtime/cuda/vector.cuh"

namespace sluice::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostBlocks = 1056;

struct Places {
    const std::byte* from[kMostSummed];
    std::byte* into[kMostSummed];
    int from_count, into_count;
};

// A thread takes every (gridDim * kThreads)-th vector of kWidth elements.
template <bool kAligned, int kWidth, class Element>
__global__ void __launch_bounds__(kThreads) sum_kernel(const __grid_constant__ Places places, std::int64_t count) {
    const std::int64_t step = gridDim.x * static_cast<std::int64_t>(kThreads) * kWidth;
    for (std::int64_t at = (blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x) * kWidth; at < count;
         at += step) {
        float sums[kWidth] = {};
        for (int m = 0; m < places.from_count; ++m) {
            const auto* const from = reinterpret_cast<const Element*>(places.from[m]) + at;
            const auto v = load_part<kAligned, kWidth>(from, count - at);
#pragma unroll
            for (int i = 0; i < kWidth; ++i) sums[i] = m == 0 ? v[i] : sums[i] + v[i];
        }
        const Vector<Element, kWidth> result = rounded<Element>(sums);
        for (int m = 0; m < places.into_count; ++m)
            store_part<kAligned>(reinterpret_cast<Element*>(places.into[m]) + at, result, count - at);
    }
}

__global__ void __launch_bounds__(kThreads)
    sum_doubles_kernel(const __grid_constant__ Places places, std::int64_t count) {
    const std::int64_t step = gridDim.x * static_cast<std::int64_t>(kThreads);
    for (std::int64_t at = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; at < count; at += step) {
        double sum = reinterpret_cast<const double*>(places.from[0])[at];
        for (int m = 1; m < places.from_count; ++m) sum += reinterpret_cast<const double*>(places.from[m])[at];
        for (int m = 0; m < places.into_count; ++m) reinterpret_cast<double*>(places.into[m])[at] = sum;
    }
}

unsigned blocks(std::int64_t count, int per_thread) {
    return static_cast<unsigned>(
        std::min(ceil_div(count, static_cast<std::int64_t>(kThreads) * per_thread), kMostBlocks));
}

template <class Element>
void launch(Stream stream, const Places& places, std::int64_t count) {
    constexpr int kWidth = 16 / sizeof(Element);
    bool aligned = count % kWidth == 0;
    const auto whole = [](const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
    for (int m = 0; m < places.from_count; ++m) aligned = aligned && whole(places.from[m]);
    for (int m = 0; m < places.into_count; ++m) aligned = aligned && whole(places.into[m]);
    if (aligned)
        sum_kernel<true, kWidth, Element><<<blocks(count, kWidth), kThreads, 0, stream>>>(places, count);
    else
        sum_kernel<false, kWidth, Element><<<blocks(count, kWidth), kThreads, 0, stream>>>(places, count);
}

}  // namespace

void sum_members(Stream stream, ElementType type, std::span<const std::byte* const> from,
                 std::span<std::byte* const> into, std::size_t count) {
    SLUICE_CHECK(!from.empty() && from.size() <= kMostSummed && into.size() <= kMostSummed,
                 "at most 64 ranks are summed");
    if (count == 0 || into.empty()) return;
    Places places{};
    std::copy(from.begin(), from.end(), places.from);
    std::copy(into.begin(), into.end(), places.into);
    places.from_count = static_cast<int>(from.size()), places.into_count = static_cast<int>(into.size());
    const auto elements = static_cast<std::int64_t>(count);
    if (type == ElementType::kBf16)
        launch<Bf16>(stream, places, elements);
    else if (type == ElementType::kFp32)
        launch<float>(stream, places, elements);
    else
        sum_doubles_kernel<<<blocks(elements, 1), kThreads, 0, stream>>>(places, elements);
    check_launch("sum over ranks");
}

}  // namespace sluice::cuda

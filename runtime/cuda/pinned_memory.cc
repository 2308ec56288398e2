#include "runtime/cuda/pinned_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format_units.h"
#include "runtime/arena.h"
#include "runtime/cuda/check.h"

namespace sluice::cuda {
namespace {

constexpr std::size_t kHugePage = 2U << 20U;
constexpr std::size_t kTouched = std::size_t{4} << 30U;  // together, then told

std::size_t rounded_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

void touch(std::span<std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += 4096) bytes[at] = std::byte{0};
}

void touch_by_all_cores(std::span<std::byte> bytes) {
    const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
    const std::size_t share = rounded_up((bytes.size() + threads - 1) / threads, kHugePage);
    std::vector<std::jthread> running;
    for (std::size_t begin = 0; begin < bytes.size(); begin += share)
        running.emplace_back(touch, bytes.subspan(begin, std::min(share, bytes.size() - begin)));
}

}  // namespace

PinnedMemory::PinnedMemory(Bytes bytes, const std::string& name, const PinningProgress& progress) {
    if (bytes.value == 0) return;
    mapped_ = rounded_up(static_cast<std::size_t>(bytes.value), kHugePage) + kHugePage;
    void* const mapping =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        throw EnvironmentError(
            fmt::format("{}: host memory of {} cannot be mapped: {}", name, format(bytes), std::strerror(errno)));
    mapping_ = static_cast<std::byte*>(mapping);
    madvise(mapping_, mapped_, MADV_HUGEPAGE);  // a wish: without it pinning is slower, not wrong
    auto* const begin = reinterpret_cast<std::byte*>(rounded_up(reinterpret_cast<std::uintptr_t>(mapping_), kHugePage));
    bytes_ = {begin, static_cast<std::size_t>(bytes.value)};
    try {
        touch_all(name, progress);
        register_all(name);
    } catch (...) {
        release();
        throw;
    }
}

void PinnedMemory::touch_all(const std::string& name, const PinningProgress& progress) {
    const auto told = [](std::size_t bytes) { return Bytes{static_cast<std::int64_t>(bytes)}; };
    for (std::size_t at = 0; at < bytes_.size(); at += kTouched) {
        const std::size_t count = std::min(kTouched, bytes_.size() - at);
        // Asked again for every piece: a virtual machine's memory may grow while it is touched.
        require_memory(told(count), fmt::format("{} (pinned host memory, {} in all, {} of it so far)", name,
                                                format(told(bytes_.size())), format(told(at))));
        touch_by_all_cores(bytes_.subspan(at, count));
        if (progress) progress(told(at + count), told(bytes_.size()));
    }
}

void PinnedMemory::register_all(const std::string& name) {
    while (registered_ < bytes_.size()) {
        const std::size_t count = std::min(static_cast<std::size_t>(kPiece.value), bytes_.size() - registered_);
        check(cudaHostRegister(bytes_.data() + registered_, count, cudaHostRegisterDefault),
              fmt::format("{}: host memory cannot be pinned, {} of {} were", name,
                          format(Bytes{static_cast<std::int64_t>(registered_)}),
                          format(Bytes{static_cast<std::int64_t>(bytes_.size())})));
        registered_ += count;
    }
}

void PinnedMemory::release() {
    for (std::size_t at = 0; at < registered_; at += static_cast<std::size_t>(kPiece.value))
        cudaHostUnregister(bytes_.data() + at);
    if (mapping_ != nullptr) munmap(mapping_, mapped_);
    mapping_ = nullptr, registered_ = 0, bytes_ = {};
}

PinnedMemory::~PinnedMemory() { release(); }

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      registered_(std::exchange(other.registered_, 0)),
      bytes_(std::exchange(other.bytes_, {})) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
    std::swap(mapping_, other.mapping_), std::swap(mapped_, other.mapped_);
    std::swap(registered_, other.registered_), std::swap(bytes_, other.bytes_);
    return *this;
}

}  // namespace sluice::cuda

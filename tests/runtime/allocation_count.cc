#include "tests/runtime/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> counting{false};
std::atomic<std::size_t> count{0};

}  // namespace

// All other forms of new end here, but for over-aligned ones.
void* operator new(std::size_t bytes) {
    if (counting.load(std::memory_order_relaxed)) count.fetch_add(1, std::memory_order_relaxed);
    void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    if (counting.load(std::memory_order_relaxed)) count.fetch_add(1, std::memory_order_relaxed);
    const auto step = static_cast<std::size_t>(alignment);
    void* const memory = std::aligned_alloc(step, (bytes + step - 1) / step * step);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace sluice {

AllocationCount::AllocationCount() {
    count = 0;
    counting = true;
}
AllocationCount::~AllocationCount() { counting = false; }
std::size_t AllocationCount::so_far() const { return count; }

}  // namespace sluice

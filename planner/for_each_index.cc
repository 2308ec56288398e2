#include "planner/for_each_index.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice {

void for_each_index(std::size_t count, std::size_t workers, const std::function<bool(std::size_t)>& body) {
    if (workers == 0) workers = std::max(1U, std::thread::hardware_concurrency());
    std::atomic<std::size_t> next{0};
    std::mutex mutex;  // of the next two
    std::exception_ptr failure;
    std::size_t failed = count;
    const auto one = [&](std::size_t k) {
        try {
            return body(k);
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (k < failed) failed = k, failure = std::current_exception();
            return false;
        }
    };
    const auto work = [&] {
        for (std::size_t k = next++; k < count; k = next++)
            if (!one(k)) next = count;
    };
    std::vector<std::jthread> threads;
    for (std::size_t w = 1; w < std::min(workers, count); ++w) threads.emplace_back(work);
    work();
    threads.clear();  // joins
    if (failure) std::rethrow_exception(failure);
}

}  // namespace sluice

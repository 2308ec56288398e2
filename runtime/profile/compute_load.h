// Threads that compute, so that what is measured meanwhile is what one rank of several gets.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace sluice {

class ComputeLoad {
public:
    explicit ComputeLoad(std::size_t threads);  // they are computing when it returns
    ~ComputeLoad();
    ComputeLoad(const ComputeLoad&) = delete;
    ComputeLoad& operator=(const ComputeLoad&) = delete;

private:
    void compute();

    std::atomic<bool> stop_{false};
    std::atomic<std::size_t> running_{0};
    std::vector<std::thread> threads_;
};

}  // namespace sluice

// What the other parts of a GPU do while one is measured: the work of a step (step_mix.h), over and over.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "runtime/cuda/device_part.h"

namespace sluice::cuda {

// A thread for each part puts its work on it. Never waits for another part.
class PartLoad {
public:
    // Returns when every part is at work. Throws EnvironmentError where memory is short.
    explicit PartLoad(std::span<const std::shared_ptr<const DevicePart>> parts);
    // Waits until all have ended.
    ~PartLoad();
    PartLoad(const PartLoad&) = delete;
    PartLoad& operator=(const PartLoad&) = delete;

    // Throws what a part failed with, if one did: figures beside it are of no use.
    void expect_running();

private:
    class Work;
    void run(Work& work);

    std::vector<std::unique_ptr<Work>> work_;
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::exception_ptr failure_;
    std::vector<std::jthread> threads_;  // last
};

}  // namespace sluice::cuda

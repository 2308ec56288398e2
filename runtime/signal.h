// A counter that only goes up, on which threads wait: the event of the CPU runtime.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

// add() costs two atomic operations, and a system call only when it fulfils what a sleeper waits for. Wait with
// RunMonitor::wait(), so that no wait outlives a run.
class Signal {
public:
    // Everything the caller wrote before is visible to whoever sees the new value.
    void add(std::uint64_t n = 1) {
        const std::uint64_t value = value_.fetch_add(n, std::memory_order_seq_cst) + n;
        if (nearest_.load(std::memory_order_seq_cst) <= value) ring();
    }
    std::uint64_t value() const { return value_.load(std::memory_order_seq_cst); }
    bool reached(std::uint64_t target) const { return value() >= target; }

private:
    friend class RunMonitor;

    // Wakes all sleepers, so that they look again.
    void ring();
    // Sleeps until reached(target) or until `stopped`.
    void sleep(std::uint64_t target, const std::atomic<bool>& stopped);

    std::atomic<std::uint64_t> value_{0};
    std::atomic<std::uint64_t> nearest_{UINT64_MAX};  // no sleeper waits for less
    std::atomic<std::uint32_t> bell_{0};              // what sleepers sleep on: changes with every ring
};

}  // namespace sluice

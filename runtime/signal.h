// A counter that only goes up, on which threads wait: the event of the CPU runtime.
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice {

// add() costs two atomic operations, and a system call only when somebody sleeps. Counts may wrap around: targets are
// compared by their distance, which must stay below 2^31. Wait with RunMonitor::wait(), so that no wait outlives a run.
class Signal {
public:
    // Everything the caller wrote before is visible to whoever sees the new value.
    void add(std::uint32_t n = 1) {
        value_.fetch_add(n, std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) != 0) ring();
    }
    std::uint32_t value() const { return value_.load(std::memory_order_seq_cst); }
    bool reached(std::uint32_t target) const { return static_cast<std::int32_t>(value() - target) >= 0; }

private:
    friend class RunMonitor;

    // Wakes all sleepers, so that they look again.
    void ring();
    // Sleeps until reached(target) or until `stopped`.
    void sleep(std::uint32_t target, const std::atomic<bool>& stopped);

    std::atomic<std::uint32_t> value_{0};
    std::atomic<std::uint32_t> sleepers_{0};
    std::atomic<std::uint32_t> bell_{
        0};  // what sleepers sleep on: changes with every ring, be it for a value or a stop
};

}  // namespace sluice

#include "runtime/signal.h"

namespace sluice {

// No wake-up is lost. A sleeper reads the bell, enters its target, looks at the value, and sleeps only while the bell
// is what it read. add() changes the value, then looks at the nearest target: so one of the two sees the other. A ring
// clears the targets before it changes the bell: whose target it cleared had read the bell before, and enters it again.
void Signal::ring() {
    nearest_.store(UINT64_MAX, std::memory_order_seq_cst);
    bell_.fetch_add(1, std::memory_order_seq_cst);
    bell_.notify_all();
}

void Signal::sleep(std::uint64_t target, const std::atomic<bool>& stopped) {
    for (;;) {
        const std::uint32_t bell = bell_.load(std::memory_order_seq_cst);
        std::uint64_t nearest = nearest_.load(std::memory_order_seq_cst);
        while (target < nearest && !nearest_.compare_exchange_weak(nearest, target, std::memory_order_seq_cst)) {
        }
        if (reached(target) || stopped.load(std::memory_order_seq_cst)) return;
        bell_.wait(bell, std::memory_order_seq_cst);
    }
}

}  // namespace sluice

#include "runtime/signal.h"

namespace sluice {

// No wake-up is lost: a sleeper counts itself, reads the bell, then looks at the value; add() changes the value, then
// looks for sleepers. All four are sequentially consistent, so either the sleeper sees the new value or add() sees the
// sleeper and rings, which ends a sleep on the old bell at once.
void Signal::ring() {
    bell_.fetch_add(1, std::memory_order_seq_cst);
    bell_.notify_all();
}

void Signal::sleep(std::uint32_t target, const std::atomic<bool>& stopped) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    for (;;) {
        const std::uint32_t bell = bell_.load(std::memory_order_seq_cst);
        if (reached(target) || stopped.load(std::memory_order_seq_cst)) break;
        bell_.wait(bell, std::memory_order_seq_cst);
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace sluice

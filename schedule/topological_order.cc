#include "schedule/topological_order.h"

#include <cstddef>
#include <cstdint>

namespace sluice {
namespace {

// Depth-first listing with an explicit stack: chains of a million ops must not use up the call stack.
class Lister {
public:
    Lister(const Schedule& schedule, const LaneIndex& lanes)
        : schedule_(schedule), lanes_(lanes), state_(schedule.ops.size(), State::kNew) {
        order_.reserve(schedule.ops.size());
    }

    // Lists `root` after everything that it waits for. False on a cycle.
    bool list(OpId root) {
        if (state_[index(root)] == State::kListed) return true;
        open(root);
        while (!stack_.empty()) {
            const OpId next = next_predecessor(stack_.back());
            if (next == kNoOp) {
                close();
            } else if (state_[index(next)] == State::kOpen) {
                return false;
            } else if (state_[index(next)] == State::kNew) {
                open(next);
            }
        }
        return true;
    }

    std::vector<OpId> take() { return std::move(order_); }

private:
    enum class State : std::uint8_t { kNew, kOpen, kListed };
    struct Frame {
        OpId op;
        std::size_t asked = 0;  // 0: the lane is asked next, i: after[i - 1]
    };

    void open(OpId op) {
        state_[index(op)] = State::kOpen;
        stack_.push_back({op});
    }

    void close() {
        state_[index(stack_.back().op)] = State::kListed;
        order_.push_back(stack_.back().op);
        stack_.pop_back();
    }

    OpId next_predecessor(Frame& frame) const {
        const Op& op = schedule_.ops[index(frame.op)];
        if (frame.asked == 0) {
            ++frame.asked;
            const std::uint32_t place = lanes_.place(op.id);
            if (place > 1) return lanes_.ops(op.rank, lanes_.lane(op.id))[place - 2];
        }
        if (frame.asked > op.after.size()) return kNoOp;
        return op.after[frame.asked++ - 1];
    }

    const Schedule& schedule_;
    const LaneIndex& lanes_;
    std::vector<State> state_;
    std::vector<Frame> stack_;
    std::vector<OpId> order_;
};

}  // namespace

std::optional<std::vector<OpId>> topological_order(const Schedule& schedule, const LaneIndex& lanes) {
    Lister lister(schedule, lanes);
    for (const Op& op : schedule.ops)
        if (!lister.list(op.id)) return std::nullopt;
    return lister.take();
}

}  // namespace sluice

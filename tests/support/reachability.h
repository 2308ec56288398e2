// Happens-before by brute force: everything that an op waits for, directly or not. The oracle for vector clocks.
#pragma once

#include <cstddef>
#include <vector>

#include "schedule/schedule.h"

namespace sluice {

class Reachability {
public:
    explicit Reachability(const Schedule& schedule)
        : before_(schedule.ops.size(), std::vector<bool>(schedule.ops.size(), false)) {
        for (const Op& op : schedule.ops) mark(schedule, op.id, op);
    }

    // Has `a` ended before `b` starts? Also answers where the schedule has cycles: then true for an op and itself.
    bool operator()(OpId a, OpId b) const { return before_[index(a)][index(b)]; }

    bool cyclic() const {
        for (std::size_t i = 0; i < before_.size(); ++i)
            if (before_[i][i]) return true;
        return false;
    }

private:
    void mark(const Schedule& schedule, OpId end, const Op& op) {
        const auto visit = [&](OpId earlier) {
            if (before_[index(earlier)][index(end)]) return;
            before_[index(earlier)][index(end)] = true;
            mark(schedule, end, schedule.ops[index(earlier)]);
        };
        for (const OpId earlier : op.after) visit(earlier);
        for (const Op& other : schedule.ops)
            if (other.id < op.id && other.rank == op.rank && other.lane == op.lane) visit(other.id);
    }

    std::vector<std::vector<bool>> before_;  // [a][b]
};

}  // namespace sluice

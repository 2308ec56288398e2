#include "traces/find_event.h"

#include <algorithm>

namespace sluice {

const TraceEvent* find_event(const Trace& trace, OpId op) {
    // Op ids are distinct and ordered, so an event sits at its op id or, where ops are missing, before it.
    const std::size_t last = std::min(index(op), trace.events.size());
    if (last < trace.events.size() && trace.events[last].op == op) return &trace.events[last];
    const auto end = trace.events.begin() + static_cast<std::ptrdiff_t>(last);
    const auto found =
        std::lower_bound(trace.events.begin(), end, op, [](const TraceEvent& e, OpId wanted) { return e.op < wanted; });
    return found != end && found->op == op ? &*found : nullptr;
}

}  // namespace sluice

#include "validation/step_chain.h"

#include <algorithm>

#include "traces/find_event.h"

namespace sluice {
namespace {

// As in traces/lane_time.cc: more ops in a row at one instant are a circle of blockers.
constexpr int kMaxHopsAtOneInstant = 4096;

// Of the events that end last the one with the lowest op id.
const TraceEvent* last_event(const Trace& trace) {
    const auto last = std::max_element(trace.events.begin(), trace.events.end(),
                                       [](const TraceEvent& a, const TraceEvent& b) { return a.end < b.end; });
    return last == trace.events.end() ? nullptr : &*last;
}

// Built from the end of the step to its begin.
class ChainWalk {
public:
    explicit ChainWalk(const Trace& trace) : trace_(trace), at_(to_nanoseconds(trace.step)) {}

    std::vector<ChainLink> run() {
        const TraceEvent* last = last_event(trace_);
        if (last != nullptr) {
            give(to_nanoseconds(last->end), {LinkKind::kUnknown, kNoOp, Wait::kNone, {}, {}});
            walk(*last);
        } else {
            give(Nanoseconds{0}, {LinkKind::kUnknown, kNoOp, Wait::kNone, {}, {}});
        }
        std::reverse(links_.begin(), links_.end());
        return std::move(links_);
    }

private:
    void walk(const TraceEvent& last) {
        const TraceEvent* current = &last;
        Wait why = Wait::kNone;  // of what ran after `current`
        for (int hops = 0; at_ > Nanoseconds{0} && hops < kMaxHopsAtOneInstant; ++hops) {
            const TraceEvent* blocker = current->wait == Wait::kNone ? nullptr : find_event(trace_, current->blocker);
            const bool matched = blocker != nullptr && current->wait == Wait::kMatch;
            // What a partner holds up does not work before the partner is there, whenever it was entered.
            const Seconds begin = matched ? std::max(current->begin, blocker->begin) : current->begin;
            const Nanoseconds before = at_;
            give(to_nanoseconds(begin), {LinkKind::kRuns, current->op, why, {}, {}});
            if (blocker == nullptr) {
                // An op that waited for nothing could have begun with the step.
                const LinkKind kind = current->wait == Wait::kNone ? LinkKind::kStartGap : LinkKind::kUnknown;
                give(Nanoseconds{0}, {kind, current->op, current->wait, {}, {}});
                return;
            }
            // The partner goes on in its own right: with what it waited for, at the same moment.
            if (!matched) give(to_nanoseconds(blocker->end), {LinkKind::kStartGap, current->op, current->wait, {}, {}});
            if (at_ < before) hops = 0;
            why = current->wait;
            current = blocker;
        }
        give(Nanoseconds{0}, {LinkKind::kUnknown, current->op, current->wait, {}, {}});
    }

    // The time back to `from` is `link`.
    void give(Nanoseconds from, ChainLink link) {
        from = std::max(from, Nanoseconds{0});
        if (from >= at_) return;
        link.begin = from;
        link.end = at_;
        links_.push_back(link);
        at_ = from;
    }

    const Trace& trace_;
    Nanoseconds at_;  // what is not explained yet ends here
    std::vector<ChainLink> links_;
};

}  // namespace

std::vector<ChainLink> step_chain(const Trace& trace) { return ChainWalk(trace).run(); }

}  // namespace sluice

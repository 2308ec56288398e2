#include "traces/lane_time.h"

#include <algorithm>
#include <map>

#include "traces/find_event.h"

namespace sluice {
namespace {

using Part = Seconds LaneTime::*;

// An op has few ancestors that start at the same instant as it does (partners, empty chains of kernels). More of them
// in a row is a damaged trace, whose blockers may go round in a circle for ever.
constexpr int kMaxHopsAtOneInstant = 4096;

// What it means for `rank` that the chain shows `b` running, when what waited for `b` did so for the reason `wait`.
Part part_of(const Trace& trace, const TraceEvent& b, Wait wait, Rank rank, Part otherwise) {
    const TraceLane& lane = trace.lanes[b.lane];
    if (lane.rank != rank) {
        // A neighbour at work or waiting is a bubble here, except while it sends to this rank.
        const bool feeds_this_rank = lane.role == LaneRole::kSend && lane.peer == rank;
        return feeds_this_rank ? &LaneTime::exposed_comm : otherwise;
    }
    switch (lane.role) {
        case LaneRole::kCopyOut:
            return &LaneTime::exposed_d2h;
        case LaneRole::kCopyIn:
            return &LaneTime::exposed_h2d;
        case LaneRole::kCompute:
            return otherwise;  // not reached in a gap of the rank's only compute lane
        case LaneRole::kCollective:
        case LaneRole::kSend:
        case LaneRole::kReceive:
            return wait == Wait::kReuse ? &LaneTime::memory_wait : &LaneTime::exposed_comm;
    }
    return otherwise;
}

// A gap of one rank's compute lane, explained from its end to its begin.
class Gap {
public:
    // `otherwise` is where the time goes that no copy, transfer or memory explains: warm_up, bubble or drain.
    Gap(const Trace& trace, LaneTime& time, Seconds begin, Seconds end, Part otherwise)
        : trace_(trace), time_(time), begin_(begin), at_(end), otherwise_(otherwise) {}

    // `cur` began at the end of the gap.
    void explain_before(const TraceEvent& cur) {
        const TraceEvent* waiting = &cur;
        for (int hops = 0; at_ > begin_ && hops < kMaxHopsAtOneInstant; ++hops) {
            const TraceEvent* blocker = waiting->wait == Wait::kNone ? nullptr : find_event(trace_, waiting->blocker);
            if (blocker == nullptr) break;
            // A partner starts together with what waits for it: what held the partner up held up both.
            if (waiting->wait != Wait::kMatch && step_over(*blocker, waiting->wait)) hops = 0;
            waiting = blocker;
        }
        give(begin_, otherwise_);
    }

    // The gap ended because `last` did: at the end of the step.
    void explain_from(const TraceEvent& last) {
        step_over(last, Wait::kData);
        explain_before(last);
    }

private:
    // Accounts for the time back to the begin of `b`. True when that was some.
    bool step_over(const TraceEvent& b, Wait wait) {
        const Seconds before = at_;
        give(b.end, otherwise_);  // after the blocker had ended, for no recorded reason
        give(b.begin, part_of(trace_, b, wait, time_.rank, otherwise_));
        return at_ < before;
    }

    void give(Seconds back_to, Part part) {
        const Seconds from = std::max(back_to, begin_);
        if (from >= at_) return;
        time_.*part += at_ - from;
        at_ = from;
    }

    const Trace& trace_;
    LaneTime& time_;
    Seconds begin_, at_;  // what is not explained yet
    Part otherwise_;
};

// Of the events that end last: one of `rank` if there is one, else the first. By rank, so that it is asked once.
class LastEvents {
public:
    explicit LastEvents(const Trace& trace) {
        Seconds end{};
        for (const TraceEvent& e : trace.events) end = std::max(end, e.end);
        for (const TraceEvent& e : trace.events) {
            if (e.end != end) continue;
            if (any_ == nullptr) any_ = &e;
            own_.emplace(trace.lanes[e.lane].rank, &e);
        }
    }
    const TraceEvent* of(Rank rank) const {
        const auto own = own_.find(rank);
        return own == own_.end() ? any_ : own->second;
    }

private:
    const TraceEvent* any_ = nullptr;
    std::map<Rank, const TraceEvent*> own_;
};

struct ComputeLane {
    LaneTime time;
    Seconds free{};  // end of the last compute event so far
    bool started = false;
};

void add_event(const Trace& trace, const TraceEvent& e, ComputeLane& lane) {
    if (e.begin > lane.free) {
        const Part otherwise = lane.started ? &LaneTime::bubble : &LaneTime::warm_up;
        Gap(trace, lane.time, lane.free, e.begin, otherwise).explain_before(e);
    }
    lane.started = true;
    lane.free = std::max(lane.free, e.begin);
    if (e.end <= lane.free) return;
    lane.time.work += e.end - lane.free;
    if (trace.labels[e.label] == "recompute") lane.time.recompute += e.end - lane.free;
    lane.free = e.end;
}

void add_end(const Trace& trace, const TraceEvent* last, ComputeLane& lane) {
    const Part otherwise = lane.started ? &LaneTime::drain : &LaneTime::warm_up;
    if (last == nullptr) {
        lane.time.*otherwise += trace.step - lane.free;
    } else {
        Gap(trace, lane.time, lane.free, trace.step, otherwise).explain_from(*last);
    }
}

}  // namespace

std::vector<LaneTime> lane_times(const Trace& trace) {
    std::vector<std::size_t> lane_of(trace.lanes.size());  // index into `lanes`, where the lane computes
    std::vector<ComputeLane> lanes;
    for (std::size_t i = 0; i < trace.lanes.size(); ++i) {
        if (trace.lanes[i].role != LaneRole::kCompute) continue;
        lane_of[i] = lanes.size();
        lanes.emplace_back().time.rank = trace.lanes[i].rank;
    }
    for (const TraceEvent& e : trace.events)
        if (trace.lanes[e.lane].role == LaneRole::kCompute) add_event(trace, e, lanes[lane_of[e.lane]]);
    const LastEvents last(trace);
    std::vector<LaneTime> times;
    for (ComputeLane& lane : lanes) {
        add_end(trace, last.of(lane.time.rank), lane);
        times.push_back(lane.time);
    }
    return times;
}

BubbleShare bubble_share(const Trace& trace, const std::vector<LaneTime>& times) {
    Seconds bubble{}, work{};
    for (const LaneTime& t : times) {
        bubble += t.warm_up + t.bubble + t.drain;
        work += t.work;
    }
    const Seconds all = trace.step * static_cast<double>(times.size());
    return {all > Seconds{0} ? bubble / all : 0, work > Seconds{0} ? bubble / work : 0};
}

}  // namespace sluice

#include "runtime/recording_backend.h"

#include <algorithm>

#include "base/error.h"

namespace sluice {

RecordingBackend::RecordingBackend(const RankProgram& program) : program_(program) {}

void RecordingBackend::begin_step(std::uint64_t step) {
    SLUICE_CHECK(steps_.empty() || steps_.back().finished, "a step begins when the one before has ended");
    Step& next = steps_.emplace_back();
    next.step = step;
    next.lanes.resize(program_.lanes.size());
    ends_.assign(program_.lanes.size(), {});
}

void RecordingBackend::issue(const IssuedOp& op) {
    Step& step = steps_.back();
    std::vector<double>& lane = ends_.at(op.at.lane);
    SLUICE_CHECK(lane.size() + 1 == op.at.place, "ops of a lane are issued in its order");
    double begin = lane.empty() ? 0 : lane.back();
    for (const LaneEvent& event : op.waits) {
        SLUICE_CHECK(ends_.at(event.lane).size() >= event.place, "an op waits for ops issued before it");
        begin = std::max(begin, ends_[event.lane][event.place - 1]);
    }
    lane.push_back(begin + 1);
    step.lanes[op.at.lane].push_back(op.op);
    step.issued.push_back(op.op);
    step.waits.emplace_back(op.waits.begin(), op.waits.end());
    step.begin.push_back(begin);
    step.end.push_back(begin + 1);
}

void RecordingBackend::finish_step() { steps_.back().finished = true; }

}  // namespace sluice

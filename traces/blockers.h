// Why an op did not start earlier, found from when everything ended.
#pragma once

#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"
#include "schedule/op_graph.h"
#include "schedule/op_matches.h"
#include "schedule/op_run.h"
#include "traces/trace.h"

namespace sluice {

struct Blocker {
    OpId op = kNoOp;
    Wait wait = Wait::kNone;
};

// The blocker of an op is what ended last of all it waited for:
//   kMatch   an op whose partners were ready later than itself: the partner that was ready last, whose own blocker
//   tells
//            why (of several, the one with the lowest id)
//   kData    an op of its `after` that touches a buffer which the op touches too
//   kReuse   any other op of its `after`: an order that memory placement asked for
//   kLane    the op before it in its lane
// Of several that ended at that instant: data before reuse before lane, then the lowest id. What says more about the
// schedule wins; when the lane was busy until then nobody was idle, and the choice changes no account of idle time.
class Blockers {
public:
    // Refers to its arguments. Requires: every op has run.
    Blockers(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches, std::span<const OpRun> runs);

    Blocker of(OpId op) const;

private:
    double ready(OpId op) const;  // when the last of what it waits for, partners apart, had ended
    Blocker own(OpId op) const;
    bool share_a_buffer(OpId a, OpId b) const;

    const Schedule& schedule_;
    const OpGraph& graph_;
    const OpMatches& matches_;
    std::span<const OpRun> runs_;
    std::vector<OpId> last_ready_;  // by match
};

}  // namespace sluice

// Whether the threads of the ranks can issue their programs when a message's partners wait for each other while they
// issue.
#pragma once

#include <span>

#include "runtime/rank_program.h"
#include "schedule/schedule.h"

namespace sluice {

// Walks all programs at once: a rank goes on to its next op, at a message only when all its partners have come to it.
// Throws InputError with the ops at which every rank stands when none can go on.
//
// The claim that it checks: each program is the order of its rank's ops in one order of all ops that lane order,
// `after` and match allow (a schedule is verified to have such an order, but its listing need not follow one). Then the
// walk never stops: of the messages that no rank has passed, the first in that order has all its partners' earlier ops
// behind them, and so all of them come to it. A rank that blocks in a call meanwhile holds up nothing but later ops.
// Programs of some ranks only are checked against each other; the partners of others are taken for ready.
void expect_issuable(const Schedule& schedule, std::span<const RankProgram> programs);

}  // namespace sluice

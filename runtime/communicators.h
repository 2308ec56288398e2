// The communicators of a schedule.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "runtime/communicator.h"
#include "runtime/run_monitor.h"
#include "schedule/schedule.h"

namespace sluice {

// All communicators that a schedule needs, made before the first step: one per group, and one per ordered pair of ranks
// that send to each other. Deadlock-free by making none later.
class Communicators {
public:
    Communicators(const Schedule& schedule, RunMonitor& monitor);

    Communicator& group(GroupId group) { return groups_[index(group)]; }
    // Member 0 sends, member 1 receives. InternalError when the schedule has no such message.
    Communicator& channel(Rank from, Rank to);

private:
    std::deque<Communicator> groups_, channels_;
    std::vector<std::pair<Rank, Rank>> pairs_;  // by channel
};

// Who sends to whom in a schedule, from and to, sorted.
std::vector<std::pair<Rank, Rank>> transfer_pairs(const Schedule& schedule);
// Of such a pair, for messages: "transfer from rank 0 to rank 1".
std::string transfer_name(Rank from, Rank to);

// What all partners of an op can say alike: "all_gather 512 MiB, forward layer 3 sub 2". Without rank, stage and
// sequence, which differ between members of some groups.
std::string describe_call(const Op& op);

}  // namespace sluice

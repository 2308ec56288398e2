// Live bytes over time (rule 4), from when every op ran.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "schedule/schedule.h"
#include "schedule/op_run.h"

namespace sluice {

struct LiveSample {
    Seconds time{};
    Bytes live{};
};

// A device arena of one rank, or the pinned memory of one host.
struct PoolTimeline {
    bool host = false;
    std::uint32_t owner = 0;          // rank, or host
    std::vector<LiveSample> samples;  // at changes, one per instant, the first at 0
    Bytes arena{};  // what placement needs: end of the highest buffer, summed over the ranks of a host
    Seconds peak_time{};
    OpId peak_op = kNoOp;
    std::array<Bytes, kBufferKinds> peak_kinds{};
};

// One pool per rank, then one per host. A block lives from the start of the first op that uses it to the end of the
// last; a persistent buffer through the whole step. Changes of one instant count together: bytes that an op frees may
// be taken by the op that starts then. So live bytes never exceed the arena of a schedule that verify() accepts. The
// peak is the first instant with most bytes, its op the lowest of those whose start brought a block to life then, or,
// when only persistent bytes live, kNoOp. Requires: every op has run.
std::vector<PoolTimeline> memory_timelines(const Schedule& schedule, std::span<const OpRun> runs);

}  // namespace sluice

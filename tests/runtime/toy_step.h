// A toy that runs any small schedule on whole numbers, and what must come out, worked out one op after another.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "runtime/communicators.h"
#include "runtime/cpu/cpu_run.h"
#include "runtime/kernel_clock.h"
#include "runtime/rank_arenas.h"
#include "runtime/run_monitor.h"
#include "schedule/schedule.h"

namespace sluice {

// Compute, and collectives of a group of one, fold everything they read into one number below 1021 and write numbers
// that depend on it, on the op and on the position; an accumulation adds, modulo 1021. A send moves the bytes it reads
// to those that its receive writes. A collective of several members is an all-reduce in place of what it accumulates
// into. So a byte that was read too early or too late changes results, and poison makes them NaN.
class ToyRunner {
public:
    ToyRunner(const Schedule& schedule, const std::vector<RankArenas>& arenas, Communicators& communicators);

    void operator()(const Op& op, KernelClock& clock) const;

private:
    void compute(const Op& op) const;
    void exchange(const Op& op) const;

    const Schedule& schedule_;
    const std::vector<RankArenas>& arenas_;
    Communicators& communicators_;
    std::vector<std::string> calls_;  // by op
};

// A schedule with everything it takes to run it, from its text.
struct ToyRun {
    explicit ToyRun(Schedule schedule, const CpuOptions& options = {}, RunOp before_op = {});

    Schedule schedule;
    RunMonitor monitor;
    std::vector<RankArenas> arenas;
    Communicators communicators;
    ToyRunner runner;
    CpuRun run;

    std::vector<float> content(BufferId buffer) const;
};

Schedule parse(std::string_view text);

// Rank 0 computes, offloads and sends; rank 1 receives and computes.
inline constexpr std::string_view kTwoRanks = R"(sluice-schedule 1
host h0 1 GiB
rank r0 h0 1 MiB
rank r1 h0 2 MiB
buffer b0 r0 device activation 256 B @0 B
buffer b1 r0 host staging 256 B @0 B
buffer b2 r0 device activation 256 B @0 B
buffer b3 r1 device grads 256 B @0 B persistent
buffer b4 r1 device activation 256 B @256 B
buffer b5 r0 device activation 256 B @0 B
op 0 r0 compute norm(1 KiB) gemm(8 8 8)*2 | write b0 | forward stage 0 layer 3 sub 0
op 1 r0 copy_out 256 B | after 0 | read b0 write b1 | forward stage 0 sub 0
op 2 r0 send r1 256 B | after 0 | read b0 | forward stage 0 sub 0
op 3 r0 compute gemm(8 8 8) | after 1 2 | write b2 | forward stage 0 sub 1
op 4 r0 copy_in 256 B | after 3 | read b1 write b5 | backward stage 0 sub 0
op 5 r1 receive r0 256 B | write b4 | forward stage 1 sub 0
op 6 r1 compute gemm(8 8 8) | after 5 | read b4 accumulate b3 | backward stage 1 sub 0
end
)";

// Runs the ops one after another, in listed order, each buffer in bytes of its own. A receive comes after its send in
// the list; a collective of several members happens with the last of them.
class ToyReference {
public:
    explicit ToyReference(const Schedule& schedule);
    void run_step();
    const std::vector<float>& content(BufferId buffer) const { return contents_[index(buffer)]; }

private:
    void compute(const Op& op);
    void receive(const Op& op);
    void reduce(const Op& op);
    std::span<float> span_of(const Access& access);

    const Schedule& schedule_;
    std::vector<std::vector<float>> contents_;
    std::vector<std::vector<std::size_t>> block_begins_;
    std::map<std::pair<Rank, Rank>, std::vector<std::vector<float>>> sent_;
    std::map<GroupId, std::vector<const Op*>> waiting_;
};

}  // namespace sluice

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

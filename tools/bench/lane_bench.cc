// Times what the CPU runtime adds to ops: in one lane, from lane to lane, and from rank to rank; of ops that do nothing
// and of ops that last 20 us. Prints nanoseconds per op beyond what the op itself takes, the median of the steps.
//
//   lane_bench [OPS]
//
// Build it optimised: cmake --preset release && cmake --build --preset release --target lane_bench
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/communicators.h"
#include "runtime/cpu/cpu_run.h"
#include "runtime/local_ranks.h"
#include "schedule/schedule.h"

namespace sluice {
namespace {

constexpr int kSteps = 21;

Schedule ranks(std::uint32_t count) {
    Schedule schedule;
    schedule.hosts.push_back({1_GiB});
    for (std::uint32_t r = 0; r < count; ++r) schedule.ranks.push_back({HostId{0}, 1_GiB});
    return schedule;
}

OpId add(Schedule& schedule, std::uint32_t rank, Lane lane, Work work, std::vector<OpId> after = {}) {
    const OpId id = id_at<OpId>(schedule.ops.size());
    schedule.ops.push_back({id, Rank{rank}, lane, std::move(work), std::move(after), {}, {}});
    return id;
}

Schedule one_lane(std::uint32_t ops) {
    Schedule schedule = ranks(1);
    for (std::uint32_t i = 0; i < ops; ++i) add(schedule, 0, {}, Compute{});
    return schedule;
}

// Each op waits for the one before, on the other lane.
Schedule two_lanes(std::uint32_t ops) {
    Schedule schedule = ranks(1);
    schedule.groups.push_back({GroupId{0}, {Rank{0}}});
    std::vector<OpId> last;
    for (std::uint32_t i = 0; i < ops; ++i) {
        const bool even = i % 2 == 0;
        last = {even ? add(schedule, 0, {}, Compute{}, last)
                     : add(schedule, 0, {LaneKind::kCollective, kNoRank},
                           Collective{CollectiveKind::kAllReduce, GroupId{0}, 4_B, 1, 0}, last)};
    }
    return schedule;
}

// A message of nothing goes back and forth.
Schedule two_ranks(std::uint32_t ops) {
    Schedule schedule = ranks(2);
    std::vector<OpId> last[2];
    for (std::uint32_t i = 0; i < ops / 2; ++i) {
        const std::uint32_t from = i % 2, to = 1 - from;
        last[from] = {add(schedule, from, {LaneKind::kSend, Rank{to}}, Send{1_B}, last[from])};
        last[to] = {add(schedule, to, {LaneKind::kReceive, Rank{from}}, Receive{1_B}, last[to])};
    }
    return schedule;
}

void measure(std::string_view what, const Schedule& schedule, std::int64_t work) {
    RunMonitor monitor;
    const std::vector<RankArenas> arenas = map_arenas(schedule, all_ranks(schedule));
    Communicators communicators(schedule, monitor);
    CpuRun run(schedule, arenas, monitor, [&](const Op& op, KernelClock&) {
        for (const std::int64_t until = work == 0 ? 0 : steady_now() + work; steady_now() < until;) {
        }
        if (op.lane.kind == LaneKind::kSend) communicators.channel(op.rank, op.lane.peer).send({0, ""}, {});
        if (op.lane.kind == LaneKind::kReceive) communicators.channel(op.lane.peer, op.rank).receive({1, ""}, {});
    });
    std::vector<double> seconds;
    for (int step = 0; step < kSteps; ++step) {
        run.run_step();
        seconds.push_back(run.step_time().value);
    }
    std::sort(seconds.begin(), seconds.end());
    const auto each = [&](double step) {
        return step * 1e9 / static_cast<double>(schedule.ops.size()) - static_cast<double>(work);
    };
    fmt::print("{:<36} {:>2} us {:>8.0f} ns per op (fastest {:.0f}, slowest {:.0f})\n", what, work / 1000,
               each(seconds[kSteps / 2]), each(seconds.front()), each(seconds.back()));
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
    using namespace sluice;
    const auto ops = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 10000);
    for (const std::int64_t work : {0, 20000}) {
        measure("one after another in a lane", one_lane(ops), work);
        measure("each after one of another lane", two_lanes(ops), work);
    }
    measure("send and receive, back and forth", two_ranks(ops), 0);
}

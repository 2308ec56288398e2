// Measures the replay: synthetic pipelines of growing size on 16 nodes of 8 GPUs, all ranks explicit, trace on.
//
//   replay_bench                              a series from ten thousand ops to the size of a 4M-token step by layer
//   replay_bench [SUBSEQUENCES BLOCKS]...     synthetic pipelines of your choice
//   replay_bench [SCHEDULE SCENARIO]...       a schedule that `sluice lower` wrote, on the scenario's cluster
//
// Everything that simulate() does is measured: replay in the child, trace in the parent. "GiB" is the peak of this
// process so far, schedule included; "child" that of any child so far, including the pages it shares with this process.
//
// A rank does, per subsequence and pass, BLOCKS times (compute, collective of the 8 ranks of its stage, one offload or
// reload) and hands over to its neighbour stage. BLOCKS = 1 is stage granularity.
#include <fmt/format.h>
#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/scenario.h"
#include "schedule/schedule.h"
#include "schedule/schedule_file.h"
#include "sim/simulate.h"

namespace {

using namespace sluice;

constexpr std::uint32_t kStages = 16, kMembers = 8;
constexpr std::pair<std::uint32_t, std::uint32_t> kSeries[] = {{8, 1},   {32, 1},  {128, 1},
                                                               {256, 1}, {256, 4}, {256, 10}};

// The published figures of an A100 cluster, rounded.
Cluster cluster() {
    Cluster c;
    c.nodes = kStages;
    c.gpus_per_node = kMembers;
    c.pcie = {BytesPerSecond{24e9}, BytesPerSecond{25e9}, BytesPerSecond{42e9}, Seconds{8e-6}, 2,
              BytesPerSecond{26e9}, BytesPerSecond{26e9}};
    c.host.numa_nodes = 2;
    c.host.bandwidth = BytesPerSecond{120e9};
    c.nvlink = {BytesPerSecond{240e9}, Seconds{3e-6}};
    c.network.nics = 4;
    c.network.bandwidth = BytesPerSecond{23e9};
    c.network.latency = Seconds{5e-6};
    return c;
}

Calibration calibration() {
    Calibration c;
    c.gemm = {{512, FlopsPerSecond{120e12}}, {4096, FlopsPerSecond{240e12}}};
    c.attention = {{1024, 1024, FlopsPerSecond{100e12}, FlopsPerSecond{80e12}},
                   {1024, 4194304, FlopsPerSecond{180e12}, FlopsPerSecond{150e12}}};
    c.pointwise = BytesPerSecond{1.3e12};
    c.kernel_gap = Seconds{3e-6};
    c.nvlink_collective = {{1_MiB, BytesPerSecond{60e9}}, {256_MiB, BytesPerSecond{225e9}}};
    c.network_collective = {{1_MiB, BytesPerSecond{10e9}}, {256_MiB, BytesPerSecond{22e9}}};
    c.collective_step = Seconds{4e-6};
    return c;
}

// Builds one rank's ops after another's; ids are given in listing order.
class Pipeline {
public:
    Pipeline(std::uint32_t subsequences, std::uint32_t blocks) : n_(subsequences), blocks_(blocks) {
        schedule_.hosts.resize(kStages);
        for (std::uint32_t s = 0; s < kStages; ++s) {
            Group group{GroupId{s}, {}};
            for (std::uint32_t m = 0; m < kMembers; ++m) {
                schedule_.ranks.push_back({HostId{s}, 80_GiB});
                group.members.push_back(rank(s, m));
            }
            schedule_.groups.push_back(group);
        }
    }

    Schedule build() {
        for (std::uint32_t s = 0; s < kStages; ++s) {
            for (std::uint32_t m = 0; m < kMembers; ++m) add_rank(s, m);
        }
        return std::move(schedule_);
    }

private:
    static Rank rank(std::uint32_t stage, std::uint32_t member) { return Rank{stage * kMembers + member}; }

    OpId add(Rank r, Lane lane, Work work, std::vector<OpId> after, Phase phase, std::uint32_t stage, std::uint32_t i) {
        Op op;
        op.id = id_at<OpId>(schedule_.ops.size());
        op.rank = r;
        op.lane = lane;
        op.work = std::move(work);
        for (const OpId a : after) {
            if (a != kNoOp) op.after.push_back(a);
        }
        op.tag = {phase, 0, static_cast<std::int32_t>(stage), -1, -1, static_cast<std::int32_t>(i), -1};
        schedule_.ops.push_back(std::move(op));
        return schedule_.ops.back().id;
    }

    Compute block(Pass pass, std::uint32_t i) const {
        const std::int64_t tokens = 4096, width = 4096 / kMembers;
        const std::uint32_t passes = pass == Pass::kForward ? 1 : 2;
        return {{{Pointwise{PointwiseKind::kNorm, 64_MiB}, 1},
                 {Gemm{tokens, 3 * width, 4096}, passes},
                 {Attention{pass, true, tokens, tokens * (i + 1), 4, 4, 128}, 1},
                 {Gemm{tokens, 4096, width}, passes},
                 {Gemm{tokens, 4 * width, 4096}, passes},
                 {Gemm{tokens, 4096, 4 * width}, passes}}};
    }

    void add_rank(std::uint32_t stage, std::uint32_t member) {
        offloads_.assign(std::size_t{n_} * blocks_, kNoOp);
        computes_.clear();
        for (std::uint32_t i = 0; i < n_; ++i) add_pass(stage, member, i, Phase::kForward);
        for (std::uint32_t i = n_; i-- > 0;) add_pass(stage, member, i, Phase::kBackward);
    }

    void add_pass(std::uint32_t stage, std::uint32_t member, std::uint32_t i, Phase phase) {
        const bool forward = phase == Phase::kForward;
        const Rank r = rank(stage, member);
        const bool has_source = forward ? stage > 0 : stage + 1 < kStages;
        const bool has_target = forward ? stage + 1 < kStages : stage > 0;
        const Rank source = rank(forward ? stage - 1 : stage + 1, member);
        const Rank target = rank(forward ? stage + 1 : stage - 1, member);
        OpId input = kNoOp;
        if (has_source) input = add(r, {LaneKind::kReceive, source}, Receive{4_MiB}, {}, phase, stage, i);
        for (std::uint32_t b = 0; b < blocks_; ++b) {
            OpId reload = kNoOp;
            OpId& offload = offloads_[std::size_t{i} * blocks_ + b];
            if (!forward) {  // at most two blocks ahead of the compute that uses it
                const OpId free = computes_.size() > 2 ? computes_[computes_.size() - 2] : kNoOp;
                reload = add(r, {LaneKind::kCopyIn, kNoRank}, Copy{24_MiB}, {offload, free}, phase, stage, i);
            }
            const OpId compute =
                add(r, {}, block(forward ? Pass::kForward : Pass::kBackward, i), {input, reload}, phase, stage, i);
            computes_.push_back(compute);
            input =
                add(r, {LaneKind::kCollective, kNoRank},
                    Collective{CollectiveKind::kAllGather, GroupId{stage}, 32_MiB, 1, 0}, {compute}, phase, stage, i);
            if (forward) offload = add(r, {LaneKind::kCopyOut, kNoRank}, Copy{24_MiB}, {compute}, phase, stage, i);
        }
        if (has_target) add(r, {LaneKind::kSend, target}, Send{4_MiB}, {input}, phase, stage, i);
    }

    std::uint32_t n_, blocks_;
    Schedule schedule_;
    std::vector<OpId> offloads_, computes_;  // of the rank being added
};

struct Usage {
    double cpu = 0;                     // seconds, this process and the children it waited for
    double own_gib = 0, child_gib = 0;  // peaks
};

Usage usage() {
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    const auto cpu = [&](const rusage& u) { return seconds(u.ru_utime) + seconds(u.ru_stime); };
    const auto gib = [](const rusage& u) { return static_cast<double>(u.ru_maxrss) / (1024.0 * 1024.0); };
    rusage own{}, children{};
    ::getrusage(RUSAGE_SELF, &own);
    ::getrusage(RUSAGE_CHILDREN, &children);
    return {cpu(own) + cpu(children), gib(own), gib(children)};
}

void print_header() {
    fmt::print("{:<28} {:>9} {:>10} {:>8} {:>8} {:>10} {:>9} {:>6} {:>6}\n", "schedule", "ops", "activities", "wall s",
               "cpu s", "act/cpu s", "step s", "GiB", "child");
}

void measure(std::string_view name, const Schedule& schedule, const Cluster& cluster, const Calibration& calibration) {
    const Usage before = usage();
    const auto start = std::chrono::steady_clock::now();
    const Simulation result = simulate(schedule, cluster, calibration);
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const Usage after = usage();
    const double cpu = after.cpu - before.cpu;
    fmt::print("{:<28} {:>9} {:>10} {:>8.2f} {:>8.2f} {:>10.0f} {:>9.3f} {:>6.2f} {:>6.2f}\n", name,
               schedule.ops.size(), result.activities, wall, cpu, static_cast<double>(result.activities) / cpu,
               result.trace.step.value, after.own_gib, after.child_gib);
    std::fflush(stdout);
}

void measure_pipeline(std::uint32_t subsequences, std::uint32_t blocks) {
    measure(fmt::format("{} subsequences x {}", subsequences, blocks), Pipeline(subsequences, blocks).build(),
            cluster(), calibration());
}

void measure_files(const char* schedule_file, const char* scenario_file) {
    const Schedule schedule = read_schedule(schedule_file);
    const Scenario scenario = read_scenario(scenario_file);
    measure(std::filesystem::path(schedule_file).stem().string(), schedule, scenario.cluster, scenario.calibration);
}

std::optional<std::uint32_t> count(std::string_view text) {
    std::uint32_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || stop != text.data() + text.size() || value == 0) return std::nullopt;
    return value;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc % 2 == 0) {
        fmt::print(stderr, "usage: replay_bench [SUBSEQUENCES BLOCKS | SCHEDULE SCENARIO]...\n");
        return 2;
    }
    print_header();
    if (argc == 1) {
        for (const auto& [subsequences, blocks] : kSeries) measure_pipeline(subsequences, blocks);
    }
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::optional<std::uint32_t> subsequences = count(argv[i]), blocks = count(argv[i + 1]);
        if (subsequences && blocks) {
            measure_pipeline(*subsequences, *blocks);
        } else {
            measure_files(argv[i], argv[i + 1]);
        }
    }
    return 0;
}

#include "traces/step_summary.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace sluice {
namespace {

LaneTime mean_of(const std::vector<LaneTime>& lanes) {
    LaneTime mean;
    mean.rank = kNoRank;
    if (lanes.empty()) return mean;
    for (const auto part :
         {&LaneTime::work, &LaneTime::warm_up, &LaneTime::bubble, &LaneTime::exposed_d2h, &LaneTime::exposed_h2d,
          &LaneTime::exposed_comm, &LaneTime::memory_wait, &LaneTime::drain, &LaneTime::recompute}) {
        for (const LaneTime& lane : lanes) mean.*part += lane.*part;
        mean.*part = mean.*part / static_cast<double>(lanes.size());
    }
    return mean;
}

WorstRank worst_of(const std::vector<LaneTime>& lanes, Seconds LaneTime::*part) {
    WorstRank worst;
    for (const LaneTime& lane : lanes)
        if (worst.rank == kNoRank || lane.*part > worst.time) worst = {lane.rank, lane.*part};
    return worst;
}

// Where kinds were not recorded, the samples say how much lived.
std::vector<PoolPeak> peaks_of(const Trace& trace, bool host) {
    std::vector<Bytes> sampled(trace.pools.size());
    for (const MemorySample& s : trace.memory) sampled[s.pool] = std::max(sampled[s.pool], s.live);
    std::vector<PoolPeak> peaks;
    for (std::size_t i = 0; i < trace.pools.size(); ++i) {
        const MemoryPool& pool = trace.pools[i];
        if (pool.host != host) continue;
        PoolPeak peak{pool.owner, {}, pool.arena, pool.capacity, pool.peak_time, pool.peak_op, {}};
        for (const auto& [label, bytes] : pool.peak_kinds) {
            peak.live += bytes;
            peak.kinds.emplace_back(trace.labels[label], bytes);
        }
        peak.live = std::max(peak.live, sampled[i]);
        peaks.push_back(std::move(peak));
    }
    std::sort(peaks.begin(), peaks.end(), [](const PoolPeak& a, const PoolPeak& b) { return a.owner < b.owner; });
    return peaks;
}

const PoolPeak* fullest(const std::vector<PoolPeak>& peaks) {
    const auto found = std::max_element(peaks.begin(), peaks.end(),
                                        [](const PoolPeak& a, const PoolPeak& b) { return a.live < b.live; });
    return found == peaks.end() ? nullptr : &*found;
}

std::vector<StageTime> stages_of(const Trace& trace) {
    std::map<std::int32_t, std::pair<std::set<Rank>, Seconds>> stages;
    for (const TraceEvent& e : trace.events) {
        const TraceLane& lane = trace.lanes[e.lane];
        if (lane.role != LaneRole::kCompute) continue;
        auto& [ranks, busy] = stages[e.stage];
        ranks.insert(lane.rank);
        busy += e.end - e.begin;
    }
    std::vector<StageTime> times;
    times.reserve(stages.size());
    for (const auto& [stage, entry] : stages)
        times.push_back({stage, static_cast<std::uint32_t>(entry.first.size()),
                         entry.second / static_cast<double>(entry.first.size())});
    return times;
}

// Collects times by label index; longest first, equals by label index.
struct LabelTimes {
    explicit LabelTimes(const Trace& trace) : trace_(trace), times_(trace.labels.size()) {}
    void add(std::uint32_t label, std::uint64_t count, Seconds time) {
        times_[label].count += count;
        times_[label].time += time;
    }
    std::vector<LabelTime> sorted() && {
        for (std::size_t i = 0; i < times_.size(); ++i) times_[i].label = trace_.labels[i];
        std::erase_if(times_, [](const LabelTime& t) { return t.count == 0; });
        std::stable_sort(times_.begin(), times_.end(),
                         [](const LabelTime& a, const LabelTime& b) { return a.time > b.time; });
        return std::move(times_);
    }

private:
    const Trace& trace_;
    std::vector<LabelTime> times_;
};

void add_events(const Trace& trace, StepSummary& summary) {
    LabelTimes phases(trace);
    for (const TraceEvent& e : trace.events) {
        const LaneRole role = trace.lanes[e.lane].role;
        if (role == LaneRole::kCompute) phases.add(e.label, 1, e.end - e.begin);
        if (role == LaneRole::kCopyOut) summary.offloaded += e.bytes;
        if (role == LaneRole::kCopyIn) summary.reloaded += e.bytes;
    }
    summary.phases = std::move(phases).sorted();
}

}  // namespace

const PoolPeak* StepSummary::fullest_device() const { return fullest(device_peaks); }
const PoolPeak* StepSummary::fullest_host() const { return fullest(host_peaks); }

StepSummary summarize_step(const Trace& trace) {
    StepSummary summary;
    summary.step = trace.step;
    summary.ops = trace.events.size();
    summary.lanes = lane_times(trace);
    summary.mean = mean_of(summary.lanes);
    summary.bubble = bubble_share(trace, summary.lanes);
    summary.worst_d2h = worst_of(summary.lanes, &LaneTime::exposed_d2h);
    summary.worst_h2d = worst_of(summary.lanes, &LaneTime::exposed_h2d);
    summary.worst_comm = worst_of(summary.lanes, &LaneTime::exposed_comm);
    summary.device_peaks = peaks_of(trace, false);
    summary.host_peaks = peaks_of(trace, true);
    summary.stages = stages_of(trace);
    add_events(trace, summary);
    LabelTimes kernels(trace);
    for (const KernelSpan& k : trace.kernels) kernels.add(k.label, k.count, k.end - k.begin);
    summary.kernels = std::move(kernels).sorted();
    return summary;
}

}  // namespace sluice

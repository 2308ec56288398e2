#include "validation/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.h"

namespace sluice {
namespace {

Seconds length(const TraceEvent& e) { return e.end - e.begin; }

// The place of the lower median in the order given.
std::size_t median_of(std::span<const Trace> traces) {
    std::vector<std::size_t> order(traces.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return traces[a].step < traces[b].step; });
    return order[(order.size() - 1) / 2];
}

std::vector<LanePair> lane_pairs(const Trace& predicted, const Trace& measured) {
    using Key = std::tuple<Rank, LaneRole, Rank>;
    std::map<Key, LanePair> lanes;
    const auto add = [&](const Trace& trace, Seconds TimePair::*side) {
        const auto pair = [&](const TraceLane& lane) -> LanePair& {
            LanePair& p = lanes[{lane.rank, lane.role, lane.peer}];
            p.lane = lane;
            return p;
        };
        for (const TraceLane& lane : trace.lanes) pair(lane);
        for (const TraceEvent& e : trace.events) pair(trace.lanes[e.lane]).busy.*side += length(e);
    };
    add(predicted, &TimePair::predicted);
    add(measured, &TimePair::measured);
    std::vector<LanePair> result;
    result.reserve(lanes.size());
    for (const auto& [key, pair] : lanes) result.push_back(pair);
    return result;
}

struct ClassTotal {
    std::uint64_t calls = 0;
    Nanoseconds busy{};
};
using ClassTotals = std::map<std::string, ClassTotal, std::less<>>;

ClassTotals class_totals(const Trace& trace, const OpPieces& pieces) {
    ClassTotals totals;
    const auto add = [&](std::string_view op_class, std::uint32_t calls, Nanoseconds time) {
        auto at = totals.find(op_class);
        if (at == totals.end()) at = totals.emplace(op_class, ClassTotal{}).first;
        at->second.calls += calls;
        at->second.busy += time;
    };
    for (const TraceEvent& e : trace.events) pieces.of(e, add);
    return totals;
}

std::vector<ClassPair> class_pairs(const ClassTotals& predicted, std::span<const ClassTotals> measured,
                                   std::size_t median) {
    std::map<std::string, ClassPair, std::less<>> pairs;
    for (const auto& [name, total] : predicted) {
        pairs[name].predicted_calls = total.calls;
        pairs[name].busy.predicted = to_seconds(total.busy);
    }
    for (const ClassTotals& step : measured)
        for (const auto& [name, total] : step) pairs[name];
    std::vector<ClassPair> result;
    for (auto& [name, pair] : pairs) {
        pair.op_class = name;
        for (std::size_t i = 0; i < measured.size(); ++i) {
            const auto at = measured[i].find(name);
            const ClassTotal total = at == measured[i].end() ? ClassTotal{} : at->second;
            const Seconds busy = to_seconds(total.busy);
            pair.measured_least = i == 0 ? busy : std::min(pair.measured_least, busy);
            pair.measured_most = std::max(pair.measured_most, busy);
            if (i == median) pair.measured_calls = total.calls, pair.busy.measured = busy;
        }
        result.push_back(pair);
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const ClassPair& a, const ClassPair& b) { return a.busy.measured > b.busy.measured; });
    return result;
}

std::vector<NumberedPair> numbered_pairs(const Trace& predicted, const Trace& measured,
                                         std::int32_t TraceEvent::*number) {
    std::map<std::int32_t, NumberedPair> pairs;
    const auto add = [&](const Trace& trace, Seconds TimePair::*side) {
        for (const TraceEvent& e : trace.events) {
            NumberedPair& pair = pairs[e.*number];
            pair.number = e.*number;
            TimePair& time = trace.lanes[e.lane].role == LaneRole::kCompute ? pair.compute : pair.others;
            time.*side += length(e);
        }
    };
    add(predicted, &TimePair::predicted);
    add(measured, &TimePair::measured);
    std::vector<NumberedPair> result;
    result.reserve(pairs.size());
    for (const auto& [key, pair] : pairs) result.push_back(pair);
    return result;
}

std::vector<PoolPair> pool_pairs(const StepSummary& predicted, const StepSummary& measured) {
    std::map<std::pair<bool, std::uint32_t>, PoolPair> pools;
    const auto add = [&](const std::vector<PoolPeak>& peaks, bool host, Bytes PoolPair::*live, Bytes PoolPair::*arena) {
        for (const PoolPeak& peak : peaks) {
            PoolPair& pair = pools[{host, peak.owner}];
            pair.host = host;
            pair.owner = peak.owner;
            pair.*live = peak.live;
            pair.*arena = peak.arena;
        }
    };
    add(predicted.device_peaks, false, &PoolPair::predicted_live, &PoolPair::predicted_arena);
    add(predicted.host_peaks, true, &PoolPair::predicted_live, &PoolPair::predicted_arena);
    add(measured.device_peaks, false, &PoolPair::measured_live, &PoolPair::measured_arena);
    add(measured.host_peaks, true, &PoolPair::measured_live, &PoolPair::measured_arena);
    std::vector<PoolPair> result;
    result.reserve(pools.size());
    for (const auto& [key, pair] : pools) result.push_back(pair);
    return result;
}

OpPair op_pair(const Trace& trace, const OpPieces& pieces, const TraceEvent& predicted, const TraceEvent& measured) {
    return {predicted.op,
            trace.lanes[predicted.lane].rank,
            std::string(pieces.class_of(predicted)),
            trace.labels[predicted.label],
            predicted.stage,
            predicted.layer,
            predicted.subsequence,
            {length(predicted), length(measured)}};
}

// Walks both traces by op id.
void join_ops(const Trace& predicted, const OpPieces& pieces, const Trace& measured, std::size_t worst,
              Comparison& out) {
    std::vector<std::pair<const TraceEvent*, const TraceEvent*>> both;
    auto p = predicted.events.begin();
    auto m = measured.events.begin();
    while (p != predicted.events.end() || m != measured.events.end()) {
        if (m == measured.events.end() || (p != predicted.events.end() && p->op < m->op)) {
            out.only_predicted.push_back((p++)->op);
        } else if (p == predicted.events.end() || m->op < p->op) {
            out.only_measured.push_back((m++)->op);
        } else {
            both.emplace_back(&*p++, &*m++);
        }
    }
    const auto error = [](const auto& pair) { return std::abs((length(*pair.first) - length(*pair.second)).value); };
    const auto count = static_cast<std::ptrdiff_t>(std::min(worst, both.size()));
    std::partial_sort(both.begin(), both.begin() + count, both.end(), [&](const auto& a, const auto& b) {
        return std::tuple(-error(a), a.first->op) < std::tuple(-error(b), b.first->op);
    });
    for (auto pair = both.begin(); pair != both.begin() + count; ++pair)
        out.worst_ops.push_back(op_pair(predicted, pieces, *pair->first, *pair->second));
}

}  // namespace

double TimePair::relative_error() const {
    if (predicted == measured) return 0;
    return measured.value == 0 ? std::numeric_limits<double>::infinity() : error() / measured;
}

Comparison compare(const Trace& predicted, std::span<const Trace> measured, const CompareOptions& options) {
    SLUICE_CHECK(!measured.empty(), "a comparison needs a measured trace");
    Comparison out;
    for (const Trace& trace : measured) out.measured_steps.push_back(trace.step);
    std::sort(out.measured_steps.begin(), out.measured_steps.end());
    out.median_step = median_of(measured);
    const Trace& median = measured[out.median_step];
    out.step = {predicted.step, median.step};
    out.kernels = !predicted.kernels.empty() && !median.kernels.empty();

    const OpPieces predicted_pieces(predicted, out.kernels, options.schedule);
    const OpPieces median_pieces(median, out.kernels, options.schedule);
    out.error_shares = error_shares(predicted, predicted_pieces, median, median_pieces);
    out.lanes = lane_pairs(predicted, median);
    std::vector<ClassTotals> totals;
    totals.reserve(measured.size());
    for (const Trace& trace : measured)
        totals.push_back(class_totals(trace, OpPieces(trace, out.kernels, options.schedule)));
    out.classes = class_pairs(class_totals(predicted, predicted_pieces), totals, out.median_step);
    out.stages = numbered_pairs(predicted, median, &TraceEvent::stage);
    out.subsequences = numbered_pairs(predicted, median, &TraceEvent::subsequence);

    const StepSummary p = summarize_step(predicted), m = summarize_step(median);
    out.predicted_mean = p.mean, out.measured_mean = m.mean;
    out.predicted_bubble = p.bubble, out.measured_bubble = m.bubble;
    out.pools = pool_pairs(p, m);
    join_ops(predicted, predicted_pieces, median, options.worst_ops, out);
    return out;
}

void require_same_schedule(const Trace& a, std::string_view a_name, const Trace& b, std::string_view b_name) {
    for (const auto& [trace, name] : {std::pair(&a, a_name), std::pair(&b, b_name)})
        if (trace->provenance.schedule_fingerprint.empty())
            throw InputError(
                fmt::format("{}: does not say of which schedule it is, expected a trace with the fingerprint "
                            "of its schedule",
                            name));
    if (a.provenance.schedule_fingerprint == b.provenance.schedule_fingerprint) return;
    throw InputError(
        fmt::format("{}: is of schedule {} ({}), but {} is of schedule {} ({}), expected two traces of one schedule; "
                    "sluice simulate "
                    "--schedule FILE --trace predicts the schedule that was run",
                    b_name, b.provenance.schedule_fingerprint, b.provenance.scenario, a_name,
                    a.provenance.schedule_fingerprint, a.provenance.scenario));
}

}  // namespace sluice

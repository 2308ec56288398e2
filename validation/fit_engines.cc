#include "validation/fit_engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/format_units.h"
#include "schedule/op_matches.h"
#include "schedule/ring.h"
#include "traces/find_event.h"
#include "validation/correct_rates.h"
#include "validation/rate_lookup.h"

namespace sluice {
namespace {

constexpr double kSame = 0.001;        // relative: less is not called a change
constexpr double kMostlyBeside = 0.5;  // of an op
constexpr double kHardlyBeside = 0.01;
constexpr std::array<std::string_view, 3> kEngines{"copy_out", "copy_in", "collective"};

void change(FittedPart& part, std::string_view where, std::string before, std::string after) {
    part.points.push_back({std::string(where), std::move(before), std::move(after)});
}

// Which of the three engines alone ran beside most of the op.
std::optional<std::size_t> engine_beside(const ComputeSample& sample) {
    std::optional<std::size_t> found;
    for (std::size_t engine = 0; engine < 3; ++engine) {
        if (sample.beside[engine] >= sample.length * kMostlyBeside && !found)
            found = engine;
        else if (sample.beside[engine] > sample.length * kHardlyBeside)
            return std::nullopt;
    }
    return found;
}

// What the op would have taken alone, by the medians of its shapes; nothing where one of them never ran alone.
class TimesAlone {
public:
    explicit TimesAlone(const KernelSamples& samples) : samples_(samples) {}

    std::optional<Seconds> of(const std::vector<Kernel>& kernels, const ComputeSample& sample, Seconds gap) const {
        Seconds sum = sample.gaps_inside ? Seconds{0} : sample.open;
        for (const Kernel& kernel : kernels) {
            const auto shape = std::find_if(samples_.shapes.begin(), samples_.shapes.end(),
                                            [&](const ShapeTime& s) { return s.shape == kernel.shape; });
            if (shape == samples_.shapes.end() || shape->corrected) return std::nullopt;
            sum += (shape->call + (sample.gaps_inside ? gap : Seconds{0})) * static_cast<double>(kernel.count);
        }
        return sum;
    }

private:
    const KernelSamples& samples_;
};

// The members of a match of which all have events: when the last was there, and when it ended.
struct MatchSpan {
    Seconds begin{}, end{};
};
std::optional<MatchSpan> span_of(const Trace& trace, std::span<const OpId> members) {
    MatchSpan span;
    for (const OpId op : members) {
        const TraceEvent* event = op == kNoOp ? nullptr : find_event(trace, op);
        if (event == nullptr) return std::nullopt;
        span.begin = std::max(span.begin, event->begin);
        span.end = std::max(span.end, event->end);
    }
    return span;
}

bool inside_a_node(const Schedule& schedule, const std::vector<Rank>& members) {
    return std::all_of(members.begin(), members.end(), [&](Rank rank) {
        return schedule.ranks[index(rank)].host == schedule.ranks[index(members.front())].host;
    });
}

// Seconds of one call and what it carries, by (kind, members, bytes).
struct Message {
    CollectiveKind kind;
    std::size_t members;
    Bytes bytes;
    friend auto operator<=>(const Message&, const Message&) = default;
};
std::map<Message, std::vector<double>> messages(std::span<const MeasuredRun> runs) {
    std::map<Message, std::vector<double>> times;
    for (const MeasuredRun& run : runs) {
        const OpMatches matches(*run.schedule);
        for (std::uint32_t m = 0; m < matches.size(); ++m) {
            const std::span<const OpId> members = matches.members(m);
            if (members.size() < 2 || members.front() == kNoOp) continue;
            const auto* c = std::get_if<Collective>(&run.schedule->ops[index(members.front())].work);
            if (c == nullptr || !inside_a_node(*run.schedule, run.schedule->groups[index(c->group)].members)) continue;
            if (const auto span = span_of(*run.trace, members); span && c->bytes.value > 0)
                times[{c->kind, members.size(), c->bytes}].push_back((span->end - span->begin).value / c->calls);
        }
    }
    return times;
}

void add_rate(std::vector<std::string>& lines, std::string_view what, std::vector<double> rates, std::size_t least) {
    if (rates.size() < least) return;
    const std::size_t count = rates.size();
    lines.push_back(
        fmt::format("{} {}, the median of {}", what, format(BytesPerSecond{median(std::move(rates))}), count));
}

}  // namespace

FittedPart fit_kernel_gap(Calibration& c, const KernelSamples& samples, std::size_t least) {
    FittedPart part{"kernel_gap"};
    std::vector<double> gaps;
    bool inside = false;
    for (const ComputeSample& sample : samples.ops) {
        inside = inside || sample.gaps_inside;
        if (!sample.gaps_inside && sample.calls > 0)
            gaps.push_back(sample.open.value / static_cast<double>(sample.calls));
    }
    part.samples = gaps.size();
    if (gaps.size() < least) {
        part.left = inside ? "kernels touch one another, so gaps cannot be told from them" : "too few ops with kernels";
        return part;
    }
    const Seconds gap{median(std::move(gaps))};
    if (c.kernel_gap.value <= 0 || std::abs(gap / c.kernel_gap - 1) >= kSame) {
        change(part, "time", format(c.kernel_gap), format(gap));
        c.kernel_gap = gap;
    }
    return part;
}

FittedPart fit_interference(Calibration& c, const KernelSamples& samples, std::span<const MeasuredRun> runs,
                            std::size_t least) {
    FittedPart part{"interference"};
    std::array<std::vector<double>, 3> factors;
    const TimesAlone alone(samples);
    for (const ComputeSample& sample : samples.ops) {
        const auto engine = engine_beside(sample);
        if (!engine) continue;
        const Op& op = runs[sample.run].schedule->ops[index(sample.op)];
        const auto time = alone.of(std::get<Compute>(op.work).kernels, sample, c.kernel_gap);
        const Seconds beside = sample.beside[*engine];
        if (time) factors[*engine].push_back((*time - (sample.length - beside)) / beside);
    }
    const std::array<double*, 3> fields{&c.interference.copy_out, &c.interference.copy_in, &c.interference.collective};
    for (std::size_t engine = 0; engine < 3; ++engine) {
        part.samples += factors[engine].size();
        if (factors[engine].size() < least) {
            part.left +=
                fmt::format("{}{}", part.left.empty() ? "too few ops beside them alone: " : ", ", kEngines[engine]);
            continue;
        }
        const double factor = std::clamp(median(factors[engine]), 0.05, 1.0);
        if (std::abs(factor - *fields[engine]) < kSame) continue;
        change(part, kEngines[engine], fmt::format("{:.3f}", *fields[engine]), fmt::format("{:.3f}", factor));
        *fields[engine] = factor;
    }
    return part;
}

FittedPart fit_collectives(Calibration& c, std::span<const MeasuredRun> runs, std::size_t least) {
    FittedPart part{"nvlink_collective"};
    if (c.nvlink_collective.empty()) {
        part.left = "the calibration has no table of collectives inside a node";
        return part;
    }
    std::vector<RateSample> samples;
    for (const auto& [message, times] : messages(runs)) {
        if (times.size() < least) continue;
        const double hops = static_cast<double>(ring_steps(message.kind, message.members));
        const double time = median(times) - (c.collective_call + c.collective_step * hops).value;
        if (time <= 0) continue;
        const double carried = ring_fraction(message.kind, message.members) * static_cast<double>(message.bytes.value);
        samples.push_back({rate_weights(message.bytes, c.nvlink_collective), carried / time,
                           median(times) * static_cast<double>(times.size())});
        ++part.shapes;
        part.samples += times.size();
    }
    if (samples.empty()) {
        part.left = "no collective inside a node has enough samples";
        return part;
    }
    std::vector<double> rates;
    for (const BandwidthPoint& p : c.nvlink_collective) rates.push_back(p.bus_bandwidth.value);
    const std::vector<double> before = rates;
    correct_rates(rates, samples);
    double all = 0;  // seconds
    for (const RateSample& s : samples) {
        const double off_before = s.rate / rate_at(before, s.at) - 1, off_after = s.rate / rate_at(rates, s.at) - 1;
        part.error_before += s.weight * off_before, part.error_after += s.weight * off_after;
        part.spread_before += s.weight * std::abs(off_before), part.spread_after += s.weight * std::abs(off_after);
        all += s.weight;
    }
    for (double* value : {&part.error_before, &part.error_after, &part.spread_before, &part.spread_after})
        *value /= all;
    for (std::size_t i = 0; i < rates.size(); ++i) {
        if (std::abs(rates[i] / before[i] - 1) < kSame) continue;
        BandwidthPoint& p = c.nvlink_collective[i];
        change(part, "size " + format(p.size), format(p.bus_bandwidth), format(BytesPerSecond{rates[i]}));
        p.bus_bandwidth = BytesPerSecond{rates[i]};
    }
    return part;
}

std::vector<std::string> link_rates(std::span<const MeasuredRun> runs, std::size_t least) {
    std::vector<double> out, in, inside, across;
    for (const MeasuredRun& run : runs) {
        for (const TraceEvent& e : run.trace->events) {
            const LaneRole role = run.trace->lanes[e.lane].role;
            if (e.bytes.value == 0 || e.end <= e.begin) continue;
            if (role == LaneRole::kCopyOut) out.push_back((e.bytes / (e.end - e.begin)).value);
            if (role == LaneRole::kCopyIn) in.push_back((e.bytes / (e.end - e.begin)).value);
        }
        const OpMatches matches(*run.schedule);
        for (std::uint32_t m = 0; m < matches.size(); ++m) {
            const std::span<const OpId> members = matches.members(m);
            if (members.size() != 2 || members[0] == kNoOp || members[1] == kNoOp) continue;
            const Op& op = run.schedule->ops[index(members[0])];
            const auto* send = std::get_if<Send>(&op.work);
            const auto span = span_of(*run.trace, members);
            if (send == nullptr || !span || span->end <= span->begin) continue;
            const bool near = inside_a_node(*run.schedule, {op.rank, op.lane.peer});
            (near ? inside : across).push_back((send->bytes / (span->end - span->begin)).value);
        }
    }
    std::vector<std::string> lines;
    add_rate(lines, "copies out (pcie.d2h):", std::move(out), least);
    add_rate(lines, "copies in (pcie.h2d):", std::move(in), least);
    add_rate(lines, "sends inside a node (nvlink.bandwidth):", std::move(inside), least);
    add_rate(lines, "sends between nodes (network.bandwidth):", std::move(across), least);
    return lines;
}

}  // namespace sluice

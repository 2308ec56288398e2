#include "runtime/profile/message_tables.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "schedule/ring.h"

namespace sluice {
namespace {

constexpr Bytes kSmall = 64_KiB;       // calls up to this are all latency
constexpr Bytes kTransfer = 1_MiB;     // what schedules send is larger
constexpr double kLeastMoving = 0.05;  // of a call's time, whatever the steps take

double steps(const MessageFigure& f) { return static_cast<double>(ring_steps(collective_kind(f.kind), f.members)); }

double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Those that tables are made of.
std::vector<MessageFigure> tabled(std::span<const MessageFigure> figures) {
    std::vector<MessageFigure> rings, exchanges;
    for (const MessageFigure& f : figures) {
        if (f.kind == MessageKind::kSendReceive) continue;
        (f.kind == MessageKind::kAllToAll ? exchanges : rings).push_back(f);
    }
    return rings.empty() ? exchanges : rings;
}

struct TimeAt {
    double x = 0, time = 0;
};
struct Line {
    double at_0 = 0, per_x = 0;
};

// The line that is least off, relatively, neither part negative: least squares of 1 = at_0 / time + per_x x / time.
// None: fewer than two different x.
std::optional<Line> line_through(std::span<const TimeAt> points) {
    double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
    for (const TimeAt& p : points) {
        const double u = 1 / p.time, v = p.x / p.time;
        aa += u * u, ab += u * v, bb += v * v, a += u, b += v;
    }
    const double determinant = aa * bb - ab * ab;
    if (points.size() < 2 || !(determinant > 1e-12 * aa * bb)) return std::nullopt;
    const Line line{(a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant};
    if (line.at_0 < 0) return Line{0, b / bb};
    if (line.per_x < 0) return Line{a / aa, 0};
    return line;
}

std::optional<CollectiveLatency> measured_latency(std::span<const MessageFigure> figures, bool across) {
    std::map<std::tuple<MessageKind, std::size_t, std::size_t>, TimeAt> least;  // by group: hops
    for (const MessageFigure& f : figures) {
        if ((f.rails > 0) != across || f.size > kSmall) continue;
        const auto [at, is_new] = least.emplace(std::tuple{f.kind, f.members, f.rails}, TimeAt{steps(f), f.time.value});
        if (!is_new) at->second.time = std::min(at->second.time, f.time.value);
    }
    if (least.empty()) return std::nullopt;
    std::vector<TimeAt> groups;
    std::vector<double> hops;
    for (const auto& [group, time] : least) groups.push_back(time), hops.push_back(time.time / time.x);
    if (const std::optional<Line> line = line_through(groups))
        return CollectiveLatency{Seconds{line->at_0}, Seconds{line->per_x}};
    return CollectiveLatency{{}, Seconds{median_of(std::move(hops))}};
}

// Seconds per byte that one link carries, of every figure of a size.
std::vector<BandwidthPoint> table_of(std::span<const MessageFigure> figures, CollectiveLatency latency, bool across) {
    std::map<Bytes, std::vector<double>> of_size;
    for (const MessageFigure& f : figures) {
        if ((f.rails > 0) != across) continue;
        const Seconds moving = std::max(f.time - latency.call - latency.step * steps(f), f.time * kLeastMoving);
        const CollectiveKind kind = collective_kind(f.kind);
        const bool divided = across && kind != CollectiveKind::kAllToAll;  // what a member sends goes over all rails
        const double bytes = ring_fraction(kind, f.members) * static_cast<double>(f.size.value) /
                             static_cast<double>(divided ? f.rails : 1);
        of_size[f.size].push_back(moving.value / bytes);
    }
    std::vector<BandwidthPoint> table;
    for (const auto& [size, times] : of_size) {
        double sum = 0;
        for (const double time : times) sum += time;
        table.push_back({size, BytesPerSecond{static_cast<double>(times.size()) / sum}});
    }
    return table;
}

}  // namespace

CollectiveKind collective_kind(MessageKind kind) {
    switch (kind) {
        case MessageKind::kAllGather:
            return CollectiveKind::kAllGather;
        case MessageKind::kReduceScatter:
            return CollectiveKind::kReduceScatter;
        case MessageKind::kAllReduce:
            return CollectiveKind::kAllReduce;
        case MessageKind::kAllToAll:
            return CollectiveKind::kAllToAll;
        case MessageKind::kSendReceive:
            break;
    }
    SLUICE_CHECK(false, "a transfer is no collective");
}

CollectiveTables collective_tables(std::span<const MessageFigure> all, CollectiveLatency if_unknown) {
    const std::vector<MessageFigure> figures = tabled(all);
    CollectiveTables tables;
    std::optional<CollectiveLatency> latency = measured_latency(figures, false);
    if (!latency) latency = measured_latency(figures, true);
    tables.latency_measured = latency.has_value();
    tables.latency = latency.value_or(if_unknown);
    tables.inside = table_of(figures, tables.latency, false);
    tables.across = table_of(figures, tables.latency, true);
    return tables;
}

std::optional<TransferLine> transfer_line(std::span<const MessageFigure> figures, bool across) {
    std::vector<MessageFigure> transfers, large;
    for (const MessageFigure& f : figures) {
        if (f.kind != MessageKind::kSendReceive || (f.rails > 0) != across) continue;
        transfers.push_back(f);
        if (f.size >= kTransfer) large.push_back(f);
    }
    if (large.size() >= 2) transfers = large;
    std::vector<TimeAt> points;
    for (const MessageFigure& f : transfers) points.push_back({static_cast<double>(f.size.value), f.time.value});
    const std::optional<Line> line = line_through(points);
    if (!line || !(line->per_x > 0)) return std::nullopt;
    return TransferLine{BytesPerSecond{1 / line->per_x}, Seconds{line->at_0}};
}

}  // namespace sluice

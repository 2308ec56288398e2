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

std::optional<Seconds> measured_step(std::span<const MessageFigure> figures, bool across) {
    std::map<std::tuple<MessageKind, std::size_t, std::size_t>, double> least;  // by group: per hop
    for (const MessageFigure& f : figures) {
        if ((f.rails > 0) != across || f.size > kSmall) continue;
        const double hop = f.time.value / steps(f);
        const auto [at, is_new] = least.emplace(std::tuple{f.kind, f.members, f.rails}, hop);
        if (!is_new) at->second = std::min(at->second, hop);
    }
    std::vector<double> hops;
    for (const auto& [group, hop] : least) hops.push_back(hop);
    if (hops.empty()) return std::nullopt;
    return Seconds{median_of(std::move(hops))};
}

// Seconds per byte that one link carries, of every figure of a size.
std::vector<BandwidthPoint> table_of(std::span<const MessageFigure> figures, Seconds step, bool across) {
    std::map<Bytes, std::vector<double>> of_size;
    for (const MessageFigure& f : figures) {
        if ((f.rails > 0) != across) continue;
        const Seconds moving = std::max(f.time - step * steps(f), f.time * kLeastMoving);
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

CollectiveTables collective_tables(std::span<const MessageFigure> all, Seconds step_if_unknown) {
    const std::vector<MessageFigure> figures = tabled(all);
    CollectiveTables tables;
    std::optional<Seconds> step = measured_step(figures, false);
    if (!step) step = measured_step(figures, true);
    tables.step_measured = step.has_value();
    tables.step = step.value_or(step_if_unknown);
    tables.inside = table_of(figures, tables.step, false);
    tables.across = table_of(figures, tables.step, true);
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
    // Least squares of 1 = latency / t + size / t / bandwidth.
    double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
    for (const MessageFigure& f : transfers) {
        const double x = 1 / f.time.value, y = static_cast<double>(f.size.value) / f.time.value;
        aa += x * x, ab += x * y, bb += y * y, a += x, b += y;
    }
    const double determinant = aa * bb - ab * ab;
    if (transfers.size() < 2 || !(determinant > 1e-12 * aa * bb)) return std::nullopt;
    const double latency = std::max(0.0, (a * bb - b * ab) / determinant);
    const double per_byte = (b - latency * ab) / bb;
    if (!(per_byte > 0)) return std::nullopt;
    return TransferLine{BytesPerSecond{1 / per_byte}, Seconds{latency}};
}

}  // namespace sluice

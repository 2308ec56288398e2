#include "planner/live_model.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "schedule/place_memory.h"

namespace sluice {
namespace {

struct Span {  // positions in issue order, inclusive
    std::size_t first = std::numeric_limits<std::size_t>::max(), last = 0;
};

// First and last use of every buffer of one rank, in the rank's issue order; returns the number of ops.
std::size_t spans_of(const Schedule& schedule, Rank rank, std::vector<Span>& spans) {
    spans.assign(schedule.buffers.size(), {});
    std::size_t position = 0;
    for (const Op& op : schedule.ops) {
        if (op.rank != rank) continue;
        for (const Access& access : op.accesses) {
            Span& span = spans[index(access.buffer)];
            span.first = std::min(span.first, position);
            span.last = position;
        }
        ++position;
    }
    for (const Buffer& buffer : schedule.buffers)
        if (buffer.persistent && buffer.rank == rank) spans[index(buffer.id)] = {0, position - 1};
    return position;
}

Bytes rounded(Bytes bytes) { return round_up(bytes, kPlacementAlignment); }

}  // namespace

LiveModel::LiveModel(const OffloadedStep& probe, const FoldedStep& whole, std::size_t stage) {
    const Schedule& schedule = probe.step.schedule;
    const Rank rank = id_at<Rank>(stage);
    std::vector<Span> spans;
    const std::size_t positions = spans_of(schedule, rank, spans);

    std::vector<char> of_unit(schedule.buffers.size(), 0);
    std::vector<std::size_t> cuts{0, positions};
    for (std::size_t u = 0; u < whole.units.size(); ++u) {
        if (whole.units[u].stage != stage) continue;
        units_.push_back(u);
        for (const BufferId part : {probe.parts[u].kept, probe.parts[u].moved, probe.parts[u].reloaded}) {
            SLUICE_CHECK(part != kNoBuffer, "the probe moves a part of every unit");
            of_unit[index(part)] = 1;
            cuts.push_back(spans[index(part)].first);
            cuts.push_back(spans[index(part)].last + 1);
        }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    const auto segment = [&](std::size_t position) {
        return static_cast<std::size_t>(std::lower_bound(cuts.begin(), cuts.end(), position) - cuts.begin());
    };
    const auto life = [&](BufferId part) {
        return Life{segment(spans[index(part)].first), segment(spans[index(part)].last + 1)};
    };

    std::vector<Bytes> change(positions + 1);
    for (const Buffer& buffer : schedule.buffers) {
        const Span span = spans[index(buffer.id)];
        if (buffer.rank != rank || buffer.space != Space::kDevice || of_unit[index(buffer.id)] ||
            span.first > span.last)
            continue;
        change[span.first] += rounded(buffer.bytes);
        change[span.last + 1] -= rounded(buffer.bytes);
    }
    fixed_.assign(cuts.size() - 1, Bytes{});
    Bytes live{};
    for (std::size_t p = 0, s = 0; p < positions; ++p) {
        if (p == cuts[s + 1]) ++s;
        live += change[p];
        fixed_[s] = std::max(fixed_[s], live);
    }

    for (const std::size_t u : units_) {
        const Unit& unit = whole.units[u];
        const Bytes bytes = whole.schedule.buffers[index(unit.buffer)].bytes;
        const UnitParts& parts = probe.parts[u];
        lives_.push_back({unit.subsequence, bytes, 1, life(parts.kept), life(parts.moved), life(parts.reloaded)});
        if (activation_.size() <= unit.subsequence) activation_.resize(unit.subsequence + 1);
        if (unit.sequence == 0) activation_[unit.subsequence] += bytes;
    }
    std::vector<Bytes> to_come = activation_;
    for (UnitLife& unit : lives_) {
        Bytes& rest = to_come[unit.subsequence];
        unit.of_rest = unit.bytes / rest;
        rest -= unit.bytes;
        if (rest.value == 0) rest = activation_[unit.subsequence];
    }
}

std::vector<Bytes> LiveModel::shares(const std::vector<Bytes>& x) const {
    std::vector<Bytes> left = x, result;  // left: of the subsequence, for the units still to come
    result.reserve(lives_.size());
    for (const UnitLife& unit : lives_) {
        Bytes& rest = left[unit.subsequence];
        Bytes share = rest;
        if (unit.of_rest < 1) {
            share =
                std::min(unit.bytes, Bytes{static_cast<std::int64_t>(unit.of_rest * static_cast<double>(rest.value))});
            if (share != unit.bytes) share -= Bytes{share.value % kPlacementAlignment.value};
        }
        rest = unit.of_rest < 1 ? rest - share : x[unit.subsequence];  // the last unit: a new sequence starts over
        result.push_back(share);
    }
    return result;
}

Bytes LiveModel::peak(const std::vector<Bytes>& x) const {
    std::vector<Bytes> change(fixed_.size() + 1);
    const auto add = [&](const Life& life, Bytes bytes) {
        change[life.begin] += bytes;
        change[life.end] -= bytes;
    };
    const std::vector<Bytes> moved = shares(x);
    for (std::size_t k = 0; k < lives_.size(); ++k) {
        const UnitLife& unit = lives_[k];
        add(unit.kept, rounded(unit.bytes - moved[k]));
        add(unit.moved, rounded(moved[k]));
        add(unit.reloaded, rounded(moved[k]));
    }
    Bytes live{}, peak{};
    for (std::size_t s = 0; s < fixed_.size(); ++s) {
        live += change[s];
        peak = std::max(peak, live + fixed_[s]);
    }
    return peak;
}

}  // namespace sluice

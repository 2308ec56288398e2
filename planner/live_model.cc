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
        const auto cut_at = [&](BufferId part) {
            of_unit[index(part)] = 1;
            cuts.push_back(spans[index(part)].first);
            cuts.push_back(spans[index(part)].last + 1);
        };
        for (const BufferId part : {probe.parts[u].kept, probe.parts[u].moved, probe.parts[u].reloaded}) {
            SLUICE_CHECK(part != kNoBuffer, "the probe moves a part of every unit");
            cut_at(part);
        }
        for (const BufferId part : {probe.step.units[u].dropped, probe.step.units[u].remade})
            if (part != kNoBuffer) cut_at(part);
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

    std::vector<std::int32_t> lowest;  // layer, by slot: it comes first
    for (const std::size_t u : units_) {
        const Unit& unit = whole.units[u];
        const Unit& probed = probe.step.units[u];
        const Bytes bytes = whole.schedule.buffers[index(unit.buffer)].bytes;
        const UnitParts& parts = probe.parts[u];
        by_layer_ |= unit.layer >= 0;
        if (activation_.size() <= unit.slot) activation_.resize(unit.slot + 1);
        cheap_.resize(activation_.size());
        UnitLife life_of;
        life_of.slot = unit.slot;
        lowest.resize(activation_.size(), std::numeric_limits<std::int32_t>::max());
        lowest[unit.slot] = std::min(lowest[unit.slot], unit.layer);
        if (by_layer_) life_of.row = unit.layer - lowest[unit.slot];
        life_of.bytes = bytes;
        life_of.kept = life(parts.kept), life_of.moved = life(parts.moved), life_of.reloaded = life(parts.reloaded);
        if (probed.remade != kNoBuffer) {
            life_of.dropped = life(probed.dropped), life_of.remade = life(probed.remade);
            cheap_[unit.slot] = schedule.buffers[index(probed.remade)].bytes;
        }
        lives_.push_back(life_of);
        if (unit.sequence == 0) activation_[unit.slot] += bytes;
    }
}

std::int64_t LiveModel::recomputed_layers(const UnitLife& unit, const std::vector<std::int64_t>& recomputed) const {
    if (recomputed.empty()) return 0;
    const std::int64_t of_stage = recomputed[unit.slot];
    return by_layer_ ? (unit.row < of_stage ? 1 : 0) : of_stage;
}

Bytes LiveModel::bytes_of(const UnitLife& unit, const std::vector<std::int64_t>& recomputed) const {
    return unit.bytes - cheap_[unit.slot] * recomputed_layers(unit, recomputed);
}

std::vector<Bytes> LiveModel::shares(const std::vector<Bytes>& x, const std::vector<std::int64_t>& recomputed) const {
    std::vector<Bytes> whole = activation_;
    if (!recomputed.empty())
        for (std::size_t i = 0; i < whole.size(); ++i) whole[i] -= cheap_[i] * recomputed[i];
    std::vector<Bytes> to_come = whole, left = x, result;  // of the subsequence, for the units still to come
    result.reserve(lives_.size());
    for (const UnitLife& unit : lives_) {
        const std::size_t i = unit.slot;
        const Bytes bytes = bytes_of(unit, recomputed);
        const double of_rest = to_come[i].value == 0 ? 1 : bytes / to_come[i];
        Bytes share = left[i];
        if (of_rest < 1) {
            share = std::min(bytes, Bytes{static_cast<std::int64_t>(of_rest * static_cast<double>(left[i].value))});
            if (share != bytes) share -= Bytes{share.value % kPlacementAlignment.value};
            share = std::max(share, left[i] - (to_come[i] - bytes));  // what rounding leaves has to fit into the others
        }
        to_come[i] -= bytes, left[i] -= share;
        if (to_come[i].value == 0) to_come[i] = whole[i], left[i] = x[i];  // the last unit: a new sequence starts over
        result.push_back(share);
    }
    return result;
}

Bytes LiveModel::floor() const {
    std::vector<Bytes> live = fixed_, moved(fixed_.size()), remade(fixed_.size());
    const auto add = [](std::vector<Bytes>& at, const Life& life, Bytes bytes) {
        for (std::size_t s = life.begin; s < life.end; ++s) at[s] += bytes;
    };
    for (const UnitLife& unit : lives_) {
        const Bytes cheap = cheap_[unit.slot];
        const std::int64_t layers = cheap.value == 0 ? 0 : by_layer_ ? 1 : unit.bytes.value / cheap.value;
        std::size_t first = fixed_.size(), last = 0;
        for (const Life& life : {unit.moved, unit.reloaded, unit.dropped, unit.remade})
            if (life.begin < life.end) first = std::min(first, life.begin), last = std::max(last, life.end);
        std::fill(moved.begin() + static_cast<std::ptrdiff_t>(first), moved.begin() + static_cast<std::ptrdiff_t>(last),
                  Bytes{});
        std::fill(remade.begin() + static_cast<std::ptrdiff_t>(first),
                  remade.begin() + static_cast<std::ptrdiff_t>(last), Bytes{});
        for (const Life& life : {unit.moved, unit.reloaded}) {
            add(moved, life, unit.bytes);
            add(remade, life, unit.bytes - cheap * layers);
        }
        for (const Life& life : {unit.dropped, unit.remade}) add(remade, life, cheap);
        for (std::size_t s = first; s < last; ++s) live[s] += layers > 0 ? std::min(moved[s], remade[s]) : moved[s];
    }
    return *std::max_element(live.begin(), live.end());
}

std::vector<Shortage> LiveModel::shortages(const std::vector<Bytes>& x, Bytes limit) const {
    const std::vector<Bytes> moved = shares(x);
    std::vector<Shortage> found;
    for (std::size_t s = 0; s < fixed_.size(); ++s) {
        const auto at = [&](const Life& life) { return life.begin <= s && s < life.end; };
        Shortage shortage{fixed_[s] - limit, std::vector(activation_.size(), Shortage::Holds::kNothing)};
        for (std::size_t k = 0; k < lives_.size(); ++k) {
            const UnitLife& unit = lives_[k];
            Shortage::Holds& holds = shortage.holds[unit.slot];
            if (at(unit.kept)) {
                shortage.bytes += rounded(unit.bytes - moved[k]);
                holds = std::max(holds, Shortage::Holds::kRest);
            }
            if (!at(unit.moved) && !at(unit.reloaded)) continue;
            shortage.bytes += rounded(moved[k]);
            holds = Shortage::Holds::kAll;
        }
        if (shortage.bytes.value <= 0) continue;
        if (!found.empty() && found.back().holds == shortage.holds)
            found.back().bytes = std::max(found.back().bytes, shortage.bytes);
        else
            found.push_back(std::move(shortage));
    }
    return found;
}

Bytes LiveModel::peak(const std::vector<Bytes>& x, const std::vector<std::int64_t>& recomputed) const {
    std::vector<Bytes> change(fixed_.size() + 1);
    const auto add = [&](const Life& life, Bytes bytes) {
        change[life.begin] += bytes;
        change[life.end] -= bytes;
    };
    const std::vector<Bytes> moved = shares(x, recomputed);
    for (std::size_t k = 0; k < lives_.size(); ++k) {
        const UnitLife& unit = lives_[k];
        add(unit.kept, rounded(bytes_of(unit, recomputed) - moved[k]));
        add(unit.moved, rounded(moved[k]));
        add(unit.reloaded, rounded(moved[k]));
        if (recomputed_layers(unit, recomputed) == 0) continue;
        add(unit.dropped, rounded(cheap_[unit.slot]));
        add(unit.remade, rounded(cheap_[unit.slot]));
    }
    Bytes live{}, peak{};
    for (std::size_t s = 0; s < fixed_.size(); ++s) {
        live += change[s];
        peak = std::max(peak, live + fixed_[s]);
    }
    return peak;
}

}  // namespace sluice

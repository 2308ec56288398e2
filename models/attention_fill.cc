#include "models/attention_fill.h"

#include <algorithm>

namespace sluice {
namespace {

std::int64_t rounded_up(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }

// Of the multiprocessors that are busy, how much faster they are by the power that the idle ones leave them.
double gain(double fill, const PowerLimit& limit) {
    if (limit.window.value <= 0) return 1;
    return 1 + (limit.attention_forward - 1) * std::clamp((1 - fill) / (1 - limit.busy), 0.0, 1.0);
}

Attention with_heads(Attention a, std::int64_t heads) {
    a.heads = heads;
    return a;
}

}  // namespace

double attention_fill(const Attention& a, const AttentionTiles& t) {
    if (t.multiprocessors == 0) return 1;
    double tiles = 0, places = 0;
    for (std::int64_t done = 0; done < a.queries; done += t.stretch) {
        const std::int64_t count = a.heads * rounded_up(std::min(t.stretch, a.queries - done), t.rows);
        tiles += static_cast<double>(count);
        places += static_cast<double>(rounded_up(count, t.multiprocessors) * t.multiprocessors);
    }
    return tiles / places;
}

double fill_factor_at_full_clock(const Attention& a, const AttentionTiles& t) {
    if (t.multiprocessors == 0 || a.pass != Pass::kForward || a.queries == 0) return 1;
    return attention_fill(with_heads(a, t.heads), t) / attention_fill(a, t);
}

double fill_factor(const Attention& a, const Calibration& c) {
    const double at_full_clock = fill_factor_at_full_clock(a, c.attention_tiles);
    if (at_full_clock == 1) return 1;
    const double table = gain(attention_fill(with_heads(a, c.attention_tiles.heads), c.attention_tiles), c.power_limit);
    return at_full_clock * table / gain(attention_fill(a, c.attention_tiles), c.power_limit);
}

}  // namespace sluice

#include "validation/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/format_units.h"

namespace sluice {
namespace {

std::string percent(double ratio) { return std::isfinite(ratio) ? fmt::format("{:+.2f}%", 100 * ratio) : "infinite"; }
std::string tolerance_text(double ratio) { return fmt::format("{:g}%", 100 * ratio); }

Verdict judge_time(std::string what, const TimePair& pair, double tolerance) {
    const double error = pair.relative_error();
    return {std::move(what), std::abs(error) <= tolerance,
            fmt::format("{}, predicted {}, measured {}", percent(error), format(pair.predicted), format(pair.measured)),
            tolerance_text(tolerance)};
}

Seconds exposed_copy(const LaneTime& mean) { return mean.exposed_d2h + mean.exposed_h2d; }

double share(Seconds part, Seconds whole) { return whole.value > 0 ? part / whole : 0; }

Seconds bubble(const LaneTime& mean) { return mean.warm_up + mean.bubble + mean.drain; }

Verdict judge_share(std::string what, Seconds (*part)(const LaneTime&), const Comparison& c, double tolerance) {
    const double predicted = share(part(c.predicted_mean), c.step.predicted);
    const double measured = share(part(c.measured_mean), c.step.measured);
    return {std::move(what), std::abs(predicted - measured) <= tolerance,
            fmt::format("{}, predicted {:.2f}%, measured {:.2f}% of the step", percent(predicted - measured),
                        100 * predicted, 100 * measured),
            tolerance_text(tolerance)};
}

bool near(Bytes predicted, Bytes measured, double tolerance) {
    return std::abs(static_cast<double>((predicted - measured).value)) <=
           tolerance * static_cast<double>(measured.value);
}

Verdict judge_pool(const PoolPair& p, double tolerance) {
    const bool same_arena = p.predicted_arena == p.measured_arena;
    return {fmt::format("peak of {} {}", p.host ? "node" : "rank", p.owner),
            near(p.predicted_live, p.measured_live, tolerance) && same_arena,
            fmt::format("live {} B predicted, {} B measured; arena {} B, {} B{}", p.predicted_live.value,
                        p.measured_live.value, p.predicted_arena.value, p.measured_arena.value,
                        same_arena ? "" : ", expected the same"),
            tolerance_text(tolerance)};
}

void judge_classes(const Comparison& c, const Tolerances& t, std::vector<Verdict>& verdicts) {
    Seconds all{};
    for (const ClassPair& pair : c.classes) all += pair.busy.measured;
    for (const ClassPair& pair : c.classes) {
        const auto own = t.classes.find(pair.op_class);
        const bool large = std::max(pair.busy.measured, pair.busy.predicted) >= all * t.least_class;
        if (own != t.classes.end())
            verdicts.push_back(judge_time("class " + pair.op_class, pair.busy, own->second));
        else if (t.every_class && large)
            verdicts.push_back(judge_time("class " + pair.op_class, pair.busy, *t.every_class));
    }
    for (const auto& [name, tolerance] : t.classes) {
        const bool there = std::any_of(c.classes.begin(), c.classes.end(),
                                       [&, &n = name](const ClassPair& p) { return p.op_class == n; });
        if (!there) verdicts.push_back({"class " + name, false, "in neither trace", tolerance_text(tolerance)});
    }
}

}  // namespace

std::vector<Verdict> judge(const Comparison& c, const Tolerances& t) {
    std::vector<Verdict> verdicts;
    verdicts.push_back({"ops", c.only_predicted.empty() && c.only_measured.empty(),
                        fmt::format("{} in the predicted trace only, {} in the measured one", c.only_predicted.size(),
                                    c.only_measured.size()),
                        "none"});
    if (t.step) verdicts.push_back(judge_time("step", c.step, *t.step));
    if (t.exposed_copy) verdicts.push_back(judge_share("exposed_copy", exposed_copy, c, *t.exposed_copy));
    if (t.bubble) verdicts.push_back(judge_share("bubble", bubble, c, *t.bubble));
    if (t.peak)
        for (const PoolPair& pool : c.pools)
            verdicts.push_back(judge_pool(pool, pool.host ? t.node_peak.value_or(*t.peak) : *t.peak));
    judge_classes(c, t, verdicts);
    return verdicts;
}

}  // namespace sluice

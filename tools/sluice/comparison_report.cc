#include "tools/sluice/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/format_units.h"
#include "traces/lane_name.h"

namespace sluice {
namespace {

constexpr std::size_t kMostNamed = 8;  // ops that one trace lacks
constexpr std::size_t kMostRows = 16;  // of stages, subsequences and pools, the worst first

std::string signed_time(Seconds t) {
    if (std::abs(t.value) < 0.5e-9) t = Seconds{0};  // what rounding leaves
    if (t.value < 0) return fmt::format("-{}", format(Seconds{-t.value}));
    return fmt::format("{}{}", t.value > 0 ? "+" : "", format(t));
}

std::string signed_percent(double ratio) { return std::isfinite(ratio) ? fmt::format("{:+.1f}%", 100 * ratio) : "-"; }

std::string pair_row(std::string_view name, const TimePair& pair) {
    return fmt::format("    {:<36}{:>11}{:>11}{:>11}{:>9}", name, format(pair.predicted), format(pair.measured),
                       signed_time(pair.error()), signed_percent(pair.relative_error()));
}

std::string head(std::string_view title, std::string_view more = "") {
    return fmt::format("  {:<38}{:>11}{:>11}{:>11}{:>9}{}\n", title, "predicted", "measured", "error", "", more);
}

std::string heading_text(const Comparison& c, const Trace& predicted, const Trace& measured) {
    const Provenance &p = predicted.provenance, &m = measured.provenance;
    std::string text =
        fmt::format("{} against {} of {} (schedule {})\n", p.producer, m.producer, m.scenario, m.schedule_fingerprint);
    text += fmt::format("  predicted with   calibration {}, {}\n", p.calibration, p.hardware);
    text += fmt::format("  measured on      {}\n", m.hardware);
    text += fmt::format("  step             predicted {}, measured {}: error {} ({})\n", format(c.step.predicted),
                        format(c.step.measured), signed_percent(c.step.relative_error()), signed_time(c.step.error()));
    const Seconds least = c.measured_steps.front(), most = c.measured_steps.back();
    if (c.measured_steps.size() > 1)
        text +=
            fmt::format("  measured steps   {} of them, {} to {}, {:.1f}% apart; the median, number {}, is compared\n",
                        c.measured_steps.size(), format(least), format(most), 100 * ((most - least) / c.step.measured),
                        c.median_step + 1);
    return text;
}

std::string shares_text(const Comparison& c) {
    std::string text = head("error of the step by class", "      same ops  other path");
    Nanoseconds p{}, m{}, same{};
    const auto row = [&](std::string_view name, Nanoseconds predicted, Nanoseconds measured, Nanoseconds of_same) {
        const Nanoseconds error = predicted - measured;
        return fmt::format("    {:<36}{:>11}{:>11}{:>11}{:>9}{:>14}{:>12}\n", name, format(to_seconds(predicted)),
                           format(to_seconds(measured)), signed_time(to_seconds(error)),
                           signed_percent(c.step.measured.value == 0 ? 0 : to_seconds(error) / c.step.measured),
                           signed_time(to_seconds(of_same)), signed_time(to_seconds(error - of_same)));
    };
    for (const ErrorShare& share : c.error_shares) {
        text += row(share.op_class, share.predicted, share.measured, share.same_ops);
        p += share.predicted, m += share.measured, same += share.same_ops;
    }
    return text + row("step", p, m, same);
}

constexpr std::array<std::pair<std::string_view, Seconds LaneTime::*>, 8> kParts{
    {{"work", &LaneTime::work},
     {"warm_up", &LaneTime::warm_up},
     {"bubble", &LaneTime::bubble},
     {"exposed_d2h", &LaneTime::exposed_d2h},
     {"exposed_h2d", &LaneTime::exposed_h2d},
     {"exposed_comm", &LaneTime::exposed_comm},
     {"memory_wait", &LaneTime::memory_wait},
     {"drain", &LaneTime::drain}}};

std::string parts_text(const Comparison& c) {
    std::string text = head("a mean compute lane");
    for (const auto& [name, part] : kParts)
        if ((c.predicted_mean.*part).value != 0 || (c.measured_mean.*part).value != 0)
            text += pair_row(name, {c.predicted_mean.*part, c.measured_mean.*part}) + "\n";
    return text +
           fmt::format("    bubble_fraction {:.4f} predicted, {:.4f} measured; bubble_over_work {:.4f}, {:.4f}\n",
                       c.predicted_bubble.of_step, c.measured_bubble.of_step, c.predicted_bubble.of_work,
                       c.measured_bubble.of_work);
}

// By role: the mean over its lanes, and the lane with the largest error.
std::string lanes_text(const Comparison& c) {
    std::map<LaneRole, std::vector<const LanePair*>> roles;
    for (const LanePair& lane : c.lanes) roles[lane.lane.role].push_back(&lane);
    std::string text = head("lanes, mean busy time", "   worst");
    for (const auto& [role, lanes] : roles) {
        TimePair mean;
        const LanePair* worst = lanes.front();
        for (const LanePair* lane : lanes) {
            mean.predicted += lane->busy.predicted / static_cast<double>(lanes.size());
            mean.measured += lane->busy.measured / static_cast<double>(lanes.size());
            if (std::abs(lane->busy.error().value) > std::abs(worst->busy.error().value)) worst = lane;
        }
        text += pair_row(fmt::format("{} x{}", category_of(role), lanes.size()), mean) +
                fmt::format("   {} of rank {}\n", signed_time(worst->busy.error()), index(worst->lane.rank));
    }
    return text;
}

std::string classes_text(const Comparison& c) {
    std::string text = head("op classes, all ranks", "   calls");
    for (const ClassPair& pair : c.classes) {
        text += pair_row(pair.op_class, pair.busy) + fmt::format("   {}", pair.measured_calls);
        if (pair.predicted_calls != pair.measured_calls) text += fmt::format(" ({} predicted)", pair.predicted_calls);
        if (c.measured_steps.size() > 1)
            text += fmt::format(", {} to {}", format(pair.measured_least), format(pair.measured_most));
        text += "\n";
    }
    return text;
}

std::string numbered_text(std::string_view title, std::string_view noun, std::vector<NumberedPair> pairs) {
    std::string text = head(title);
    const std::size_t all = pairs.size();
    if (all > kMostRows) {
        std::stable_sort(pairs.begin(), pairs.end(), [](const NumberedPair& a, const NumberedPair& b) {
            return std::abs(a.compute.error().value) > std::abs(b.compute.error().value);
        });
        pairs.resize(kMostRows);
    }
    for (const NumberedPair& pair : pairs)
        text += pair_row(pair.number < 0 ? fmt::format("no {}", noun) : fmt::format("{} {}", noun, pair.number),
                         pair.compute) +
                "\n";
    if (all > kMostRows) text += fmt::format("    {} more with smaller errors: --json has them\n", all - kMostRows);
    return text;
}

std::string pools_text(const Comparison& c) {
    std::string text;
    std::size_t shown = 0;
    for (const PoolPair& pool : c.pools) {
        if (shown++ == kMostRows)
            return text + fmt::format("    {} more pools: --json has them\n", c.pools.size() - kMostRows);
        text += fmt::format("    {:<36}{:>11}{:>11}{:>11} B   arena {}, {}\n",
                            fmt::format("{} {}", pool.host ? "node" : "rank", pool.owner), format(pool.predicted_live),
                            format(pool.measured_live), (pool.predicted_live - pool.measured_live).value,
                            format(pool.predicted_arena), format(pool.measured_arena));
    }
    return shown == 0 ? "" : head("memory, most bytes live") + text;
}

std::string place_text(const OpPair& op) {
    std::string text = fmt::format("op {} r{} {} {}", index(op.op), index(op.rank), op.phase, op.op_class);
    for (const auto& [name, number] :
         {std::pair("s", op.stage), std::pair("l", op.layer), std::pair("i", op.subsequence)})
        if (number >= 0) text += fmt::format(" {}{}", name, number);
    return text;
}

std::string ops_text(const Comparison& c) {
    if (c.worst_ops.empty()) return "";
    std::string text = head("ops with the largest errors");
    for (const OpPair& op : c.worst_ops) text += pair_row(place_text(op), op.time) + "\n";
    return text;
}

std::string missing_text(std::string_view lacking, const std::vector<OpId>& ops) {
    if (ops.empty()) return "";
    std::string text =
        fmt::format("  {} op{} without an event in the {} trace:", ops.size(), ops.size() == 1 ? "" : "s", lacking);
    for (std::size_t i = 0; i < std::min(ops.size(), kMostNamed); ++i) text += fmt::format(" {}", index(ops[i]));
    return text + (ops.size() > kMostNamed ? " ...\n" : "\n");
}

}  // namespace

std::string comparison_text(const Comparison& c, const Trace& predicted, const Trace& measured) {
    std::string text = heading_text(c, predicted, measured) + shares_text(c) + parts_text(c) + lanes_text(c) +
                       classes_text(c) + numbered_text("compute by stage, all ranks", "stage", c.stages) +
                       numbered_text("compute by subsequence", "subsequence", c.subsequences) + pools_text(c) +
                       ops_text(c) + missing_text("measured", c.only_predicted) +
                       missing_text("predicted", c.only_measured);
    if (!c.kernels) text += "  kernels          one of the traces has no kernels: compute is one class\n";
    return text;
}

}  // namespace sluice

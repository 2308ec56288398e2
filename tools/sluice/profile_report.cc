#include "tools/sluice/profile_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/format_units.h"
#include "tools/sluice/profile_figures.h"

namespace sluice {
namespace {

double percent(double ratio) { return 100 * ratio; }

std::string measured_by(const ProfileReport& r) {
    const Machine& m = r.profile.machine;
    return fmt::format("measured on {} by sluice {} profile --device cpu{}{}: {}; {}; {}", r.date, r.version,
                       r.request.quick ? " --quick" : "",
                       r.request.ranks > 1 ? fmt::format(" --ranks {}", r.request.ranks) : "", describe(m), m.blas,
                       m.compiler);
}

std::string head_comment(const ProfileReport& r, std::string_view what) {
    std::string text = fmt::format(
        "{}\nWritten by sluice profile; what is measured how: docs/profile.md. fp32, one core a rank.", what);
    for (const std::string& note : profile_notes(r)) text += "\nNote: " + note;
    return text;
}

nlohmann::ordered_json json_of(const SampleSpread& s, const PredictionError& e) {
    return {{"figures", s.figures},
            {"spread_median", s.median},
            {"spread_worst", s.worst},
            {"checked_shapes", e.shapes},
            {"error_median", e.median},
            {"error_median_absolute", e.median_absolute},
            {"error_p90_absolute", e.p90_absolute}};
}

}  // namespace

std::vector<std::string> profile_notes(const ProfileReport& r) {
    std::vector<std::string> notes;
    const std::int64_t cores = r.profile.machine.cores;
    if (r.profile.core_share < 0.95)
        notes.push_back(
            fmt::format("the machine was busy: {:.0f}% of the time other programs had the core; kernels do "
                        "not count that, copies and collectives do",
                        percent(1 - r.profile.core_share)));
    if (r.request.ranks > cores)
        notes.push_back(
            fmt::format("{} ranks on {} cores take turns: times of a step mean nothing", r.request.ranks, cores));
    if (cores < 2) notes.push_back("one core: copies and collectives take turns with compute, their rates mean little");
    if (r.request.quick) notes.push_back("quick: coarse tables from few samples");
    return notes;
}

std::string profile_text(const ProfileReport& r) {
    const CpuProfile& p = r.profile;
    const auto [gemm_low, gemm_high] = gemm_range(p.calibration);
    const auto [attention_low, attention_high] = attention_range(p.calibration);
    const auto [pointwise_low, pointwise_high] = pointwise_range(p.calibration);
    std::string text = fmt::format("{}\n{}, {}\n\n", describe(p.machine), p.machine.blas, p.machine.compiler);
    const auto row = [&](std::string_view name, const std::string& what) {
        text += fmt::format("  {:<18}{}\n", name, what);
    };
    row("matrix products", fmt::format("{} ... {}", format(gemm_low), format(gemm_high)));
    row("", spread_text(p.gemm));
    row("", error_text(r.check.gemm));
    row("attention", fmt::format("{} ... {}", format(attention_low), format(attention_high)));
    row("", spread_text(p.attention));
    row("", error_text(r.check.attention));
    row("pointwise", fmt::format("{} ... {}", format(pointwise_low), format(pointwise_high)));
    row("", spread_text(p.pointwise));
    row("", error_text(r.check.pointwise));
    row("copies", fmt::format("{} one way (spread {:.1f}%), {} both ways, {} from all cores, {} to start",
                              format(p.copies.one), percent(p.copies.spread), format(p.copies.both),
                              format(p.copies.all_cores), format(p.copies.start)));
    row("beside a copy", fmt::format("products run at {:.2f} of their rate, passes over memory at {:.2f}; beside two "
                                     "copies products at {:.2f}",
                                     p.interference.gemm, p.interference.pointwise, p.interference.gemm_both));
    row("collectives", fmt::format("{} a step; {} ... {}", format(p.calibration.collective_step),
                                   format(p.calibration.nvlink_collective.front().bus_bandwidth),
                                   format(p.calibration.nvlink_collective.back().bus_bandwidth)));
    text += "\n";
    for (const std::string& note : profile_notes(r)) text += fmt::format("note: {}\n", note);
    if (!r.calibration_file.empty()) text += fmt::format("calibration: {}\n", r.calibration_file);
    if (!r.cluster_file.empty()) text += fmt::format("cluster: {}\n", r.cluster_file);
    return text;
}

std::string profile_json(const ProfileReport& r) {
    const CpuProfile& p = r.profile;
    const auto path = [](const std::string& file) {
        return file.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(file);
    };
    nlohmann::ordered_json json;
    json["device"] = "cpu";
    json["machine"] = {{"cpu", p.machine.cpu},
                       {"cores", p.machine.cores},
                       {"memory_bytes", p.machine.memory.value},
                       {"blas", p.machine.blas},
                       {"compiler", p.machine.compiler}};
    json["date"] = r.date;
    json["ranks"] = r.request.ranks;
    json["quick"] = r.request.quick;
    json["gemm"] = json_of(p.gemm, r.check.gemm);
    json["attention"] = json_of(p.attention, r.check.attention);
    json["pointwise"] = json_of(p.pointwise, r.check.pointwise);
    json["copies"] = {{"one_bytes_per_second", p.copies.one.value},
                      {"both_bytes_per_second", p.copies.both.value},
                      {"all_cores_bytes_per_second", p.copies.all_cores.value},
                      {"spread", p.copies.spread},
                      {"start_seconds", p.copies.start.value}};
    json["interference"] = {{"gemm", p.interference.gemm},
                            {"pointwise", p.interference.pointwise},
                            {"gemm_beside_two_copies", p.interference.gemm_both}};
    json["collective_step_seconds"] = p.calibration.collective_step.value;
    json["core_share"] = p.core_share;
    json["notes"] = profile_notes(r);
    json["calibration"] = path(r.calibration_file);
    json["cluster"] = path(r.cluster_file);
    json["wall_seconds"] = r.wall_seconds;
    return json.dump(2);
}

FileOrigin calibration_origin(const ProfileReport& r) {
    const CpuProfile& p = r.profile;
    FileOrigin origin;
    origin.comment = head_comment(r, "Rates of the CPU backend on one machine, for sluice run and sluice simulate.");
    origin.sources = {{"profile", measured_by(r)},
                      {"code", "the CPU kernels themselves: runtime/cpu/", "bounds and facts, not measurements"}};
    const auto figures = [](const SampleSpread& s, const PredictionError& e) {
        return spread_text(s) + "; " + error_text(e);
    };
    origin.blocks["gemm"] = {"", "mean of the three products of a linear layer; " + figures(p.gemm, r.check.gemm)};
    origin.blocks["attention"] = {"", figures(p.attention, r.check.attention)};
    origin.blocks["pointwise"] = {"", "of kernels without rows below: residual_add"};
    origin.blocks["pointwise_kernels"] = {
        "", "traffic as schedules count it, forward and backward together; gelu with the biases of a layer; " +
                figures(p.pointwise, r.check.pointwise)};
    origin.blocks["fused"] = {"code", "attention adds into dK and dV itself"};
    origin.blocks["kernel_gap"] = {"", "two readings of the clock: an op's kernels follow one another in one thread"};
    origin.blocks["nvlink_collective"] = {"", "two threads; mean of all-gather and reduce-scatter, less one step"};
    origin.blocks["collective_step"] = {"", "two threads meet and part"};
    origin.blocks["gemm_workspace"] = {"code",
                                       "attention's tiles, or the loss's partial sums of 8192 tokens from 8 ranks"};
    origin.blocks["attention_workspace"] = {"code", "tiles of fixed size, in gemm_workspace"};
    origin.blocks["interference"] = {
        "", fmt::format("a product beside one copy; a pass over memory {:.2f}; a product beside two copies {:.2f}; "
                        "collectives taken as copies",
                        p.interference.pointwise, p.interference.gemm_both)};
    return origin;
}

FileOrigin cluster_origin(const ProfileReport& r) {
    const Machine& m = r.profile.machine;
    FileOrigin origin;
    origin.comment = head_comment(
        r, "One machine as a cluster: a rank is a thread on a core, with a part of the memory as its device.");
    origin.sources = {{"profile", measured_by(r)},
                      {"divided", "how sluice profile divides a machine: docs/profile.md"}};
    origin.blocks[""] = {"divided", fmt::format("ranks that do not wait for one another's core: {}", m.cores)};
    origin.blocks["gpu"] = {"",
                            "memory: half of the machine's, by ranks; peak: the fastest product measured, so that "
                            "MFU is against it; memory_bandwidth: a copy, read and written"};
    origin.blocks["pcie"] = {"", fmt::format("copies of 1 MiB, far beyond the caches; spread {:.1f}%; latency: of a "
                                             "copy of 4 KiB by a thread that sleeps",
                                             percent(r.profile.copies.spread))};
    origin.blocks["host"] = {
        "", "memory: half of the machine's; reserved: an eighth; bandwidth: a copying thread on every core"};
    origin.blocks["nvlink"] = {"", "messages between ranks are copies"};
    return origin;
}

}  // namespace sluice

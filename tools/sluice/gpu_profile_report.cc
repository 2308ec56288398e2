#include "tools/sluice/gpu_profile_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/format_units.h"
#include "runtime/profile/gpu_calibration.h"
#include "scenarios/pointwise_kernel_names.h"
#include "tools/sluice/gpu_messages_report.h"
#include "tools/sluice/profile_figures.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

double percent(double ratio) { return 100 * ratio; }

SampleSpread product_spread(const GpuFigures& f) {
    std::vector<double> spreads;
    for (const ProductFigure& p : f.products) spreads.push_back(p.spread());
    return spread_of(std::move(spreads));
}
SampleSpread attention_spread(const GpuFigures& f) {
    std::vector<double> spreads;
    for (const AttentionFigure& a : f.attention)
        spreads.push_back(a.forward.spread()), spreads.push_back(a.backward.spread());
    return spread_of(std::move(spreads));
}
SampleSpread pointwise_spread(const GpuFigures& f) {
    std::vector<double> spreads;
    for (const PointwiseFigure& p : f.pointwise) spreads.push_back(p.time.spread());
    return spread_of(std::move(spreads));
}

std::string describe(const GpuMachine& m) {
    return fmt::format("one {}, {}, {} multiprocessors, driver {}, CUDA runtime {}, {}, {}", m.name, format(m.memory),
                       m.multiprocessors, m.driver, m.runtime, m.cublas, m.cudnn);
}

std::string measured_by(const GpuProfileReport& r) {
    const int parts = r.figures.part.parts, gpus = r.figures.messages.gpus;
    return fmt::format("measured on {} by sluice {} profile --device cuda{}{}{}: {}; host {}", r.date, r.version,
                       parts > 1 ? fmt::format(" --parts {}", parts) : "",
                       gpus > 1 ? fmt::format(" --gpus {}", gpus) : "", r.quick ? " --quick" : "",
                       describe(r.figures.machine), describe(r.figures.machine.host));
}

std::string head_comment(const GpuProfileReport& r, std::string_view what) {
    std::string text =
        fmt::format("{}\nWritten by sluice profile; what is measured how: docs/profile.md. bf16, one GPU.", what);
    for (const std::string& note : gpu_profile_notes(r)) text += "\nNote: " + note;
    return text;
}

Json json_of(const SampleSpread& s, const PredictionError& e) {
    return {{"figures", s.figures},
            {"spread_median", s.median},
            {"spread_worst", s.worst},
            {"checked_shapes", e.shapes},
            {"error_median", e.median},
            {"error_median_absolute", e.median_absolute},
            {"error_p90_absolute", e.p90_absolute}};
}

Json products_json(const std::vector<ProductFigure>& figures) {
    Json rows = Json::array();
    for (const ProductFigure& p : figures)
        rows.push_back({{"m", p.shape.m},
                        {"n", p.shape.n},
                        {"k", p.shape.k},
                        {"forward_seconds", p.forward.median.value},
                        {"data_seconds", p.data.median.value},
                        {"weight_seconds", p.weight.median.value},
                        {"spread", p.spread()}});
    return rows;
}

Json attention_json(const std::vector<AttentionFigure>& figures) {
    Json rows = Json::array();
    for (const AttentionFigure& a : figures)
        rows.push_back({{"queries", a.shape.queries},
                        {"keys", a.shape.keys},
                        {"forward_seconds", a.forward.median.value},
                        {"backward_seconds", a.backward.median.value},
                        {"forward_spread", a.forward.spread()},
                        {"backward_spread", a.backward.spread()},
                        {"forward_workspace_bytes", a.forward_workspace.value},
                        {"backward_workspace_bytes", a.backward_workspace.value}});
    return rows;
}

Json pointwise_json(const std::vector<PointwiseFigure>& figures) {
    Json rows = Json::array();
    for (const PointwiseFigure& p : figures)
        rows.push_back({{"kernel", name(p.kernel)},
                        {"traffic_bytes", (p.traffic / p.calls).value},
                        {"calls", p.calls},
                        {"seconds", p.time.median.value},
                        {"bytes_per_second", p.rate().value},
                        {"spread", p.time.spread()}});
    return rows;
}

Json copies_json(const GpuCopies& c) {
    Json rows = Json::array();
    for (const GpuCopyRates& r : c.rates)
        rows.push_back({{"bytes", r.size.value},
                        {"out_bytes_per_second", r.out.value},
                        {"in_bytes_per_second", r.in.value},
                        {"out_beside_in_bytes_per_second", r.out_beside_in.value},
                        {"in_beside_out_bytes_per_second", r.in_beside_out.value}});
    return {
        {"rates", rows}, {"spread", c.spread}, {"start_seconds", c.start.value}, {"pin_bytes_per_second", c.pin.value}};
}

Json machine_json(const GpuMachine& m) {
    return {{"gpu", m.name},
            {"gpu_memory_bytes", m.memory.value},
            {"gpu_reserved_bytes", m.reserved.value},
            {"gpu_reserved_per_token_bytes", m.reserved_per_token.value},
            {"gpu_reserved_per_pinned_gib_bytes", m.reserved_per_pinned_gib.value},
            {"multiprocessors", m.multiprocessors},
            {"driver", m.driver},
            {"cuda", m.runtime},
            {"cublas", m.cublas},
            {"cudnn", m.cudnn},
            {"cpu", m.host.cpu},
            {"cores", m.host.cores},
            {"memory_bytes", m.host.memory.value},
            {"compiler", m.host.compiler}};
}

std::string part_text(const GpuPartFigures& part) {
    return fmt::format(
        "memory-bound kernels gain {:.3f} while the others are idle; copies within the GPU {}, {} to start",
        part.memory_alone, format(part.copy), format(part.copy_latency));
}

Json part_json(const GpuPartFigures& part) {
    return {{"parts", part.parts},
            {"multiprocessors", part.multiprocessors},
            {"memory_alone", part.memory_alone},
            {"copy_bytes_per_second", part.copy.value},
            {"copy_latency_seconds", part.copy_latency.value}};
}

std::string power_text(const GpuFigures& f, const PowerLimit& limit) {
    const PowerFigures& p = f.power;
    const std::string gains = fmt::format(
        "products {:.3f}, attention forward {:.3f}, backward {:.3f}{}, all together {:.3f} times as fast",
        p.gemm.gain(), p.attention_forward.gain(), p.attention_backward.gain(),
        f.part.parts > 1 ? " while the other parts are idle; the whole GPU after pauses" : "", p.mix.gain());
    if (limit.window.value <= 0) return gains + ": no limit of power shows";
    return fmt::format("{}; where busy for less than {:.0f}% of about {}", gains, limit.busy * 100,
                       format(limit.window));
}

std::string paced_text(const PowerFigures& p) {
    std::string text = "all together with pauses: gain";
    for (const PowerFigures::Paced& paced : p.paced)
        text += fmt::format("{} {:.3f} at {:.0f}%", &paced == &p.paced.front() ? "" : ",", p.mix.steady / paced.mix,
                            paced.busy * 100);
    return text;
}

Json power_json(const PowerFigures& p) {
    const auto call = [](const PausedCall& c) {
        return Json{{"steady_seconds", c.steady.value}, {"paused_seconds", c.paused.value}};
    };
    Json json = {{"gemm", call(p.gemm)},
                 {"attention_forward", call(p.attention_forward)},
                 {"attention_backward", call(p.attention_backward)},
                 {"mix", call(p.mix)},
                 {"half_seconds", p.half.value},
                 {"paced", Json::array()}};
    for (const PowerFigures::Paced& paced : p.paced)
        json["paced"].push_back({{"busy", paced.busy}, {"mix_seconds", paced.mix.value}});
    return json;
}

std::string copies_text(const GpuCopyRates& r) {
    return fmt::format("{}: {} out, {} in; {} and {} at once", format(r.size), format(r.out), format(r.in),
                       format(r.out_beside_in), format(r.in_beside_out));
}

std::string figures_text(const SampleSpread& s, const PredictionError& e) {
    return spread_text(s) + "; " + error_text(e);
}

}  // namespace

GpuProfileReport gpu_profile_report(GpuFigures figures, const std::string& calibration_name,
                                    const std::string& cluster_name) {
    GpuProfileReport r;
    r.calibration = gpu_calibration(figures, calibration_name);
    r.cluster = gpu_cluster(figures, cluster_name);
    r.check = check_gpu_profile(figures, r.calibration);
    r.figures = std::move(figures);
    return r;
}

std::vector<std::string> gpu_profile_notes(const GpuProfileReport& r) {
    std::vector<std::string> notes = r.check.short_workspaces;
    const SampleSpread products = product_spread(r.figures);
    if (products.median > 0.05)
        notes.push_back(fmt::format("products spread by {:.0f}%: something else used the GPU, or its clock changed",
                                    percent(products.median)));
    if (r.quick) notes.push_back("quick: coarse tables from short samples");
    return notes;
}

std::string gpu_profile_text(const GpuProfileReport& r) {
    const GpuFigures& f = r.figures;
    const Calibration& c = r.calibration;
    const auto [gemm_low, gemm_high] = gemm_range(c);
    const auto [attention_low, attention_high] = attention_range(c);
    const auto [pointwise_low, pointwise_high] = pointwise_range(c);
    std::string text = fmt::format("{}\nhost: {}\n\n", describe(f.machine), describe(f.machine.host));
    const auto row = [&](std::string_view what, const std::string& figures) {
        text += fmt::format("  {:<18}{}\n", what, figures);
    };
    row("matrix products", fmt::format("{} ... {}", format(gemm_low), format(gemm_high)));
    row("", spread_text(product_spread(f)));
    row("", fmt::format("{} shapes of the table within {:.1f}% (median), {:.1f}% (9 of 10), leaning {:+.1f}%",
                        r.check.gemm_table.shapes, percent(r.check.gemm_table.median_absolute),
                        percent(r.check.gemm_table.p90_absolute), percent(r.check.gemm_table.median)));
    row("", error_text(r.check.other.gemm));
    row("attention", fmt::format("{} ... {}", format(attention_low), format(attention_high)));
    row("", spread_text(attention_spread(f)));
    row("", error_text(r.check.other.attention));
    row("pointwise", fmt::format("{} ... {}", format(pointwise_low), format(pointwise_high)));
    row("", spread_text(pointwise_spread(f)));
    row("", error_text(r.check.other.pointwise));
    for (const GpuCopyRates& rates : f.copies.rates) row("copies", copies_text(rates));
    row("", fmt::format("spread {:.1f}% (worst); {} to start; pinning {}", percent(f.copies.spread),
                        format(f.copies.start), format(f.copies.pin)));
    row("beside copies", fmt::format("products run at {:.3f} of their rate beside copies out, {:.3f} beside copies in, "
                                     "{:.3f} beside both",
                                     f.interference.copy_out, f.interference.copy_in, f.interference.both));
    row("after pauses", power_text(f, c.power_limit));
    if (f.part.parts > 1)
        row(fmt::format("one of {} parts", f.part.parts),
            fmt::format("of {} multiprocessors: {}", f.part.multiprocessors, part_text(f.part)));
    if (f.messages.gpus > 1) text += gpu_messages_text(r);
    row("between kernels", fmt::format("an event takes {}", format(f.kernel_gap)));
    row("workspaces", fmt::format("backward attention {:.0f} B per head and query, {:.0f} B per head and key",
                                  c.attention_backward_workspace, c.grouped_backward_workspace));
    text += "\n";
    for (const std::string& note : gpu_profile_notes(r)) text += fmt::format("note: {}\n", note);
    if (!r.calibration_file.empty()) text += fmt::format("calibration: {}\n", r.calibration_file);
    if (!r.cluster_file.empty()) text += fmt::format("cluster: {}\n", r.cluster_file);
    return text;
}

std::string gpu_profile_json(const GpuProfileReport& r) {
    const GpuFigures& f = r.figures;
    const auto path = [](const std::string& file) { return file.empty() ? Json() : Json(file); };
    Json json;
    json["device"] = "cuda";
    json["machine"] = machine_json(f.machine);
    json["date"] = r.date;
    json["ranks"] = 1;
    json["quick"] = r.quick;
    json["gemm"] = json_of(product_spread(f), r.check.other.gemm);
    json["gemm"]["table_error_median_absolute"] = r.check.gemm_table.median_absolute;
    json["gemm"]["table_error_p90_absolute"] = r.check.gemm_table.p90_absolute;
    json["attention"] = json_of(attention_spread(f), r.check.other.attention);
    json["pointwise"] = json_of(pointwise_spread(f), r.check.other.pointwise);
    json["copies"] = copies_json(f.copies);
    json["interference"] = {{"copy_out", f.interference.copy_out},
                            {"copy_in", f.interference.copy_in},
                            {"gemm_beside_two_copies", f.interference.both}};
    json["power"] = power_json(f.power);
    if (f.part.parts > 1) json["part"] = part_json(f.part);
    if (f.messages.gpus > 1) json["messages"] = Json::parse(gpu_messages_json_text(r));
    json["kernel_gap_seconds"] = f.kernel_gap.value;
    json["attention_workspace"] = {{"forward_bytes", r.calibration.attention_forward_workspace},
                                   {"backward_bytes", r.calibration.attention_backward_workspace},
                                   {"grouped_backward_bytes", r.calibration.grouped_backward_workspace}};
    json["measured"] = {
        {"products", products_json(f.products)},    {"other_products", products_json(f.other_products)},
        {"attention", attention_json(f.attention)}, {"other_attention", attention_json(f.other_attention)},
        {"pointwise", pointwise_json(f.pointwise)}, {"other_pointwise", pointwise_json(f.other_pointwise)}};
    json["notes"] = gpu_profile_notes(r);
    json["calibration"] = path(r.calibration_file);
    json["cluster"] = path(r.cluster_file);
    json["wall_seconds"] = r.wall_seconds;
    return json.dump(2);
}

FileOrigin gpu_calibration_origin(const GpuProfileReport& r) {
    const GpuFigures& f = r.figures;
    FileOrigin origin;
    const bool parted = f.part.parts > 1;
    origin.comment = head_comment(
        r, parted ? fmt::format("Rates of the CUDA backend on one of {} parts of a GPU while the others compute, for "
                                "sluice run --parts {}.",
                                f.part.parts, f.part.parts)
                  : "Rates of the CUDA backend on one GPU, for sluice run and sluice simulate.");
    origin.sources = {{"profile", measured_by(r)},
                      {"code", "the CUDA backend itself: runtime/cuda/", "bounds and facts, not measurements"}};
    origin.blocks["gemm"] = {
        "", fmt::format("median of the layers near a size, each the mean of its three products; the {} layers are "
                        "within {:.1f}% (median), {:.1f}% (9 of 10); {}",
                        r.check.gemm_table.shapes, percent(r.check.gemm_table.median_absolute),
                        percent(r.check.gemm_table.p90_absolute), figures_text(product_spread(f), r.check.other.gemm))};
    origin.blocks["attention"] = {"", "24 heads of 128, 8 KV heads; backward with the sums of dK and dV in fp32; " +
                                          figures_text(attention_spread(f), r.check.other.attention)};
    origin.blocks["pointwise"] = {"", "of kernels without rows below: the sum of residuals"};
    origin.blocks["pointwise_kernels"] = {
        "",
        "traffic as schedules count it, forward and backward together; norms without what the sum of residuals in "
        "the same kernel would take alone; " +
            figures_text(pointwise_spread(f), r.check.other.pointwise)};
    origin.blocks["fused"] = {"code", "the call of attention's backward adds into dK and dV itself"};
    origin.blocks["kernel_gap"] = {"", "what an event between two kernels adds; the gap without one is in the rates"};
    origin.blocks["collective_step"] = {"code", "one GPU: none"};
    if (parted) origin.blocks["collective_step"] = {"", "of a copy from part to part, with the events around it"};
    origin.blocks["gemm_workspace"] = {"code",
                                       "rounding of parts; the products' own workspace is the engine's, reserved in "
                                       "the cluster"};
    origin.blocks["attention_workspace"] = {"", "bounds of all shapes measured; head dimension 128"};
    origin.blocks["interference"] = {
        "",
        fmt::format("a product of 8192 cubed beside copies; beside both {:.3f}{}{}", f.interference.both,
                    f.messages.gpus > 1 ? "" : "; collectives: not measured", parted ? "; " + part_text(f.part) : "")};
    if (f.messages.gpus > 1) describe_messages(r, origin);
    origin.blocks["attention_tiles"] = {"code",
                                        "what the library's forward kernel for Hopper does; measured with one rank of "
                                        "a cluster's plan alone: validation/h200.md"};
    origin.blocks["power_limit"] = {
        "", fmt::format("{}; {}", power_text(f, r.calibration.power_limit), paced_text(f.power))};
    return origin;
}

FileOrigin gpu_cluster_origin(const GpuProfileReport& r) {
    const GpuFigures& f = r.figures;
    FileOrigin origin;
    const int parts = f.part.parts;
    origin.comment = head_comment(r, parts > 1 ? fmt::format("One GPU in {} parts and its host as a cluster.", parts)
                                               : "One GPU and its host as a cluster.");
    origin.sources = {{"profile", measured_by(r)},
                      {"divided", "how sluice profile divides a machine: docs/profile.md"}};
    origin.blocks[""] = {"divided", "one GPU, whatever else the host has"};
    origin.blocks["gpu"] = {
        "",
        "memory: what a process sees; reserved: what the context and the libraries held in the "
        "end, and an engine's workspaces; reserved_per_token: what an engine keeps of a token; "
        "reserved_per_pinned_gib: 8 bytes for every page of 4 KiB; peak: the fastest layer measured, so that MFU is "
        "against it; memory_bandwidth: the fastest kernel that finds nothing in the L2, at most the memory's peak"};
    if (parts > 1) {
        origin.blocks["gpu"] = {
            "",
            "memory: a part's share of what a process sees; reserved: its share of what the context "
            "and the libraries held in the end, and its own engine's workspaces; reserved_per_token: what an engine "
            "keeps of a token; reserved_per_pinned_gib: 8 bytes for every page of 4 KiB; peak: the fastest "
            "layer measured on a part; memory_bandwidth: the fastest kernel of a part that finds nothing "
            "in the L2, for all parts, at most the memory's peak"};
        origin.blocks["nvlink"] = {"",
                                   "a copy of 64 MiB within the GPU's memory by one part; latency: of one from part "
                                   "to part with the events that both sides wait for"};
    }
    std::string sizes;
    for (const GpuCopyRates& rates : f.copies.rates) sizes += copies_text(rates) + "; ";
    origin.blocks["pcie"] = {"", fmt::format("{}spread {:.1f}%; latency: what copies of 64 KiB take beyond their bytes",
                                             sizes, percent(f.copies.spread))};
    origin.blocks["host"] = {"",
                             "memory: the machine's; reserved: a sixteenth; bandwidth: all copies of this GPU, which "
                             "does not bind it; pin_rate: huge pages touched by all cores, then registered"};
    if (f.messages.gpus > 1) describe_gpus(r, origin);
    return origin;
}

}  // namespace sluice

#include "tools/sluice/gpu_messages_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format_units.h"
#include "schedule/ring.h"
#include "tools/sluice/message_check.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr MessageKind kKinds[] = {MessageKind::kAllGather, MessageKind::kReduceScatter, MessageKind::kAllReduce,
                                  MessageKind::kAllToAll, MessageKind::kSendReceive};

// As nccl-tests has it.
BytesPerSecond bus_bandwidth_of(const MessageFigure& f) {
    const double factor = f.kind == MessageKind::kSendReceive ? 1 : ring_fraction(collective_kind(f.kind), f.members);
    return f.size / f.time * factor;
}

// What the files foretell of one kind.
PredictionError error_of_kind(const GpuProfileReport& r, MessageKind kind) {
    const TransferLine line{r.cluster.nvlink.bandwidth, r.cluster.nvlink.latency};
    std::vector<double> errors;
    for (const MessageFigure& f : r.figures.messages.alone) {
        if (f.kind != kind) continue;
        if (const auto time = message_time(f, r.calibration, line)) errors.push_back(*time / f.time - 1);
    }
    return errors.empty() ? PredictionError{} : error_of(std::move(errors));
}

const MessageFigure* find(const std::vector<MessageFigure>& figures, MessageKind kind, Bytes size) {
    for (const MessageFigure& f : figures)
        if (f.kind == kind && f.size == size) return &f;
    return nullptr;
}

// The largest of a kind that was measured beside copies, over the same one alone, as rates; "" where none was.
std::string beside_copies(const GpuMessages& m, MessageKind kind) {
    std::string text;
    for (const MessageFigure& f : m.beside_copies)
        if (const MessageFigure* const alone = find(m.alone, kind, f.size); alone != nullptr && f.kind == kind)
            text = fmt::format(", {:.3f} of it beside copies out", alone->time / f.time);
    return text;
}

Json json_of(const std::vector<MessageFigure>& figures) {
    Json rows = Json::array();
    for (const MessageFigure& f : figures)
        rows.push_back({{"program", nccl_test_name(f.kind)},
                        {"bytes", f.size.value},
                        {"seconds", f.time.value},
                        {"bus_bytes_per_second", bus_bandwidth_of(f).value}});
    return rows;
}

double value_or_zero(const std::optional<BytesPerSecond>& rate) { return rate.value_or(BytesPerSecond{}).value; }

}  // namespace

std::string gpu_messages_text(const GpuProfileReport& r) {
    const GpuMessages& m = r.figures.messages;
    std::string text;
    for (const MessageKind kind : kKinds) {
        const MessageFigure *least = nullptr, *largest = nullptr;
        for (const MessageFigure& f : m.alone) {
            if (f.kind != kind) continue;
            if (least == nullptr || f.time < least->time) least = &f;
            if (largest == nullptr || f.size >= largest->size) largest = &f;
        }
        if (largest == nullptr) continue;
        const PredictionError error = error_of_kind(r, kind);
        text += fmt::format(
            "  {:<20}{} at least; {} at {}{}; foretold within {:.1f}% "
            "(median), {:.1f}% (9 of 10)\n",
            nccl_test_name(kind), format(least->time), format(bus_bandwidth_of(*largest)), format(largest->size),
            beside_copies(m, kind), 100 * error.median_absolute, 100 * error.p90_absolute);
    }
    text += fmt::format("  {:<20}products run at {:.3f} of their rate beside all-gathers\n", "beside messages",
                        m.product_beside);
    const auto rate = [](const std::optional<BytesPerSecond>& found) {
        return format(found.value_or(BytesPerSecond{}));
    };
    text += fmt::format("  {:<20}{} out, {} in; {} and {} at once\n", fmt::format("copies of {} GPUs", m.gpus),
                        rate(m.links.all_out), rate(m.links.all_in), rate(m.links.all_out_beside_in),
                        rate(m.links.all_in_beside_out));
    return text;
}

std::string gpu_messages_json_text(const GpuProfileReport& r) {
    const GpuMessages& m = r.figures.messages;
    Json json{{"gpus", m.gpus},
              {"nccl", m.nccl},
              {"alone", json_of(m.alone)},
              {"beside_copies", json_of(m.beside_copies)},
              {"product_beside", m.product_beside},
              {"communicator_bytes", m.communicators.value},
              {"all_out_bytes_per_second", value_or_zero(m.links.all_out)},
              {"all_in_bytes_per_second", value_or_zero(m.links.all_in)},
              {"all_out_beside_in_bytes_per_second", value_or_zero(m.links.all_out_beside_in)},
              {"all_in_beside_out_bytes_per_second", value_or_zero(m.links.all_in_beside_out)}};
    json["errors"] = Json::object();
    for (const MessageKind kind : kKinds) {
        const PredictionError error = error_of_kind(r, kind);
        json["errors"][std::string(nccl_test_name(kind))] = {{"error_median", error.median},
                                                             {"error_median_absolute", error.median_absolute},
                                                             {"error_p90_absolute", error.p90_absolute}};
    }
    return json.dump();
}

void describe_messages(const GpuProfileReport& r, FileOrigin& origin) {
    const GpuMessages& m = r.figures.messages;
    const PredictionError gather = error_of_kind(r, MessageKind::kAllGather),
                          reduce = error_of_kind(r, MessageKind::kAllReduce);
    origin.blocks["nvlink_collective"] = {
        "", fmt::format("{} GPUs, NCCL {}; mean time per byte of all-gather, reduce-scatter and all-reduce, less their "
                        "latency; all-gather foretold within {:.1f}% (median), all-reduce {:.1f}%; the largest "
                        "all-gather: its rate alone{}",
                        m.gpus, m.nccl, 100 * gather.median_absolute, 100 * reduce.median_absolute,
                        beside_copies(m, MessageKind::kAllGather))};
    origin.blocks["collective_call"] = {"", "what the least times have beside their hops"};
    origin.blocks["collective_step"] = {"", "what they have per hop, over the collectives"};
    origin.blocks["interference"].note += fmt::format("; beside all-gathers {:.3f}", m.product_beside);
}

void describe_gpus(const GpuProfileReport& r, FileOrigin& origin) {
    const GpuMessages& m = r.figures.messages;
    origin.comment += fmt::format("\n{} GPUs: each as the first, which was measured alone.", m.gpus);
    origin.blocks[""] = {"divided", "the GPUs that were measured together, whatever else the host has"};
    origin.blocks["nvlink"] = {
        "", fmt::format("NCCL {}, every GPU sends to the next while it receives: a line through sizes of 1 MiB and "
                        "more",
                        m.nccl)};
    origin.blocks["host"].note =
        "memory: the machine's; reserved: a sixteenth; bandwidth: all GPUs at once, both ways; pin_rate: huge pages "
        "touched by all cores, then registered";
    origin.blocks["gpu"].note += fmt::format("; reserved has {} of communicators", format(m.communicators));
}

}  // namespace sluice

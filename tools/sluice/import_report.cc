#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/format_units.h"
#include "tools/sluice/import_measurements.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

struct NamedRate {
    const char *key, *words;
    std::optional<BytesPerSecond> LinkRates::*rate;
};
constexpr NamedRate kRates[] = {
    {"out_bytes_per_second", "to the host, one GPU", &LinkRates::out},
    {"in_bytes_per_second", "from the host, one GPU", &LinkRates::in},
    {"out_beside_in_bytes_per_second", "to the host, beside the other way", &LinkRates::out_beside_in},
    {"in_beside_out_bytes_per_second", "from the host, beside the other way", &LinkRates::in_beside_out},
    {"all_out_bytes_per_second", "to the host, all GPUs together", &LinkRates::all_out},
    {"all_in_bytes_per_second", "from the host, all GPUs together", &LinkRates::all_in},
    {"all_out_beside_in_bytes_per_second", "to the host, all GPUs both ways", &LinkRates::all_out_beside_in},
    {"all_in_beside_out_bytes_per_second", "from the host, all GPUs both ways", &LinkRates::all_in_beside_out},
    {"peer_bytes_per_second", "from GPU to GPU, by copy engine", &LinkRates::peer},
};

Json json_of(const std::optional<TransferLine>& line) {
    if (!line) return nullptr;
    return {{"bytes_per_second", line->bandwidth.value}, {"latency_seconds", line->latency.value}};
}

Json json_of(const ImportedRun& run, const Import& import) {
    return {{"program", nccl_test_name(run.kind)},
            {"source", import.sources[run.source].id},
            {"ranks", run.members},
            {"hosts", run.hosts},
            {"rails", run.rails},
            {"smallest_bytes", run.smallest.value},
            {"largest_bytes", run.largest.value},
            {"least_seconds", run.least.value},
            {"bus_bytes_per_second", run.bus_bandwidth.value},
            {"figures", run.error.shapes},
            {"error_median", run.error.median},
            {"error_median_absolute", run.error.median_absolute},
            {"error_p90_absolute", run.error.p90_absolute}};
}

std::string line_of(const ImportedRun& run) {
    return fmt::format("  {:<20}{:>6}{:>7}  {:>10} ... {:<10}{:>11}{:>12}   {:.1f}%, {:.1f}%\n",
                       nccl_test_name(run.kind), run.members, run.hosts, format(run.smallest), format(run.largest),
                       format(run.least), format(run.bus_bandwidth), 100 * run.error.median_absolute,
                       100 * run.error.p90_absolute);
}

}  // namespace

std::string import_text(const Import& import) {
    std::string text;
    for (const ImportedSource& source : import.sources) text += fmt::format("{}: {}\n", source.id, source.title);
    if (!import.runs.empty())
        text += fmt::format("\n  {:<20}{:>6}{:>7}  {:<25}{:>11}{:>12}   {}\n", "", "ranks", "hosts", "          sizes",
                            "least time", "busbw", "foretold within (median, 9 of 10)");
    for (const ImportedRun& run : import.runs) text += line_of(run);
    if (!import.tables.inside.empty() || !import.tables.across.empty())
        text += fmt::format("  {:<40}{} and {} a hop{}\n", "a collective before its bytes",
                            format(import.tables.latency.call), format(import.tables.latency.step),
                            import.tables.latency_measured ? "" : " (as it was)");
    const auto transfer = [&](const char* what, const std::optional<TransferLine>& line) {
        if (line) text += fmt::format("  {:<40}{} after {}\n", what, format(line->bandwidth), format(line->latency));
    };
    transfer("a transfer inside a node", import.nvlink);
    transfer("a transfer between nodes", import.network);
    for (const NamedRate& rate : kRates)
        if (const auto& value = import.links.*rate.rate)
            text += fmt::format("  {:<40}{}\n", rate.words, format(*value));
    if (!import.notes.empty()) text += "\n";
    for (const std::string& note : import.notes) text += fmt::format("note: {}\n", note);
    return text;
}

std::string import_json(const Import& import, const std::string& calibration_file, const std::string& cluster_file) {
    const auto path = [](const std::string& file) { return file.empty() ? Json() : Json(file); };
    Json json;
    json["sources"] = Json::array();
    for (const ImportedSource& source : import.sources)
        json["sources"].push_back({{"id", source.id}, {"title", source.title}});
    json["runs"] = Json::array();
    for (const ImportedRun& run : import.runs) json["runs"].push_back(json_of(run, import));
    json["collective_call_seconds"] = import.tables.latency.call.value;
    json["collective_step_seconds"] = import.tables.latency.step.value;
    json["collective_latency_measured"] = import.tables.latency_measured;
    json["transfer_in_node"] = json_of(import.nvlink);
    json["transfer_between_nodes"] = json_of(import.network);
    json["copies"] = Json::object();
    for (const NamedRate& rate : kRates)
        json["copies"][rate.key] = import.links.*rate.rate ? Json((import.links.*rate.rate)->value) : Json();
    json["notes"] = import.notes;
    json["calibration"] = path(calibration_file);
    json["cluster"] = path(cluster_file);
    return json.dump(2);
}

}  // namespace sluice

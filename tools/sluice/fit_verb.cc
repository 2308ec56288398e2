#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "scenarios/scenario.h"
#include "scenarios/write_calibration.h"
#include "schedule/schedule_file.h"
#include "tools/sluice/output.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/schedule_of_trace.h"
#include "tools/sluice/verbs.h"
#include "traces/trace_file.h"
#include "traces/trace_format.h"
#include "validation/fit_calibration.h"

namespace sluice {
namespace {

constexpr Bytes kLargestFile = 16_GiB;

// Schedules and traces in any order, joined by fingerprint.
struct Inputs {
    std::map<std::string, Schedule> schedules;  // by fingerprint
    std::deque<Trace> traces;
    std::vector<std::string> trace_paths, trace_fingerprints;
    std::vector<MeasuredRun> runs;
};

void read_inputs(const std::vector<std::string>& paths, Inputs& in) {
    std::map<std::string, std::string> schedule_paths;
    for (const std::string& path : paths) {
        const std::string bytes = read_file(path, kLargestFile);
        if (bytes.starts_with(kTraceMagic)) {
            in.traces.push_back(parse_trace(bytes, path));
            in.trace_paths.push_back(path);
            in.trace_fingerprints.push_back(fingerprint_hex(fingerprint(bytes)));
        } else {
            Schedule schedule = read_schedule(path);
            const std::string id = schedule_fingerprint(schedule);
            in.schedules.emplace(id, std::move(schedule));
            schedule_paths.emplace(id, path);
        }
    }
    if (in.traces.empty()) throw InputError("sluice fit: no measured trace among the files, expected at least one");
    std::set<std::string> used;
    for (std::size_t i = 0; i < in.traces.size(); ++i) {
        const std::string& id = in.traces[i].provenance.schedule_fingerprint;
        const auto schedule = in.schedules.find(id);
        if (schedule == in.schedules.end())
            throw InputError(fmt::format("{}: is of schedule {}, which is not among the files; give it too",
                                         in.trace_paths[i], id.empty() ? "without a fingerprint" : id));
        used.insert(id);
        in.runs.push_back({&schedule->second, &in.traces[i], in.trace_paths[i]});
    }
    for (const auto& [id, path] : schedule_paths)
        if (!used.contains(id))
            throw InputError(fmt::format("{}: no trace among the files is of this schedule ({})", path, id));
}

// For the source of what was fitted: nothing that depends on where the files lie.
std::string describe(const Inputs& in) {
    std::set<std::string> scenarios, producers, hardware;
    for (const Trace& trace : in.traces) {
        scenarios.insert(trace.provenance.scenario);
        hardware.insert(trace.provenance.hardware);
        std::string producer = trace.provenance.producer;
        for (const auto& [name, version] : trace.provenance.versions) producer += fmt::format(", {} {}", name, version);
        producers.insert(producer);
    }
    return fmt::format("{} step{} of {} by {} on {}; traces {}", in.traces.size(), in.traces.size() == 1 ? "" : "s",
                       fmt::join(scenarios, ", "), fmt::join(producers, "; "), fmt::join(hardware, "; "),
                       fmt::join(in.trace_fingerprints, " "));
}

// As the reader wants it (docs/scenarios.md); a file that it refuses is not written.
void require_name(const std::string& name) {
    const auto is_letter_or_digit = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    const bool good = !name.empty() && name.size() <= 64 && is_letter_or_digit(name.front()) &&
                      std::all_of(name.begin(), name.end(),
                                  [&](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; });
    if (!good)
        throw InputError(
            fmt::format("sluice fit: --name: got '{}', expected at most 64 letters, digits, '-', '_' or '.', "
                        "the first a letter or digit",
                        name));
}

std::string percent(double ratio) { return fmt::format("{:+.1f}%", 100 * ratio); }

std::string fit_text(const Fit& fit, const Inputs& in, const Scenario& scenario) {
    std::string text = fmt::format("{} fitted to {}\n", scenario.calibration.name, describe(in));
    text += fmt::format("  {:<22}{:>8}{:>9}   {:<24}{}\n", "", "shapes", "samples", "error before, after",
                        "mean |error| before, after");
    for (const FittedPart& part : fit.parts) {
        text += fmt::format("  {:<22}{:>8}{:>9}", part.what, part.shapes, part.samples);
        if (part.shapes > 0)
            text += fmt::format("   {:>9}, {:<13}{:.1f}%, {:.1f}%", percent(part.error_before),
                                percent(part.error_after), 100 * part.spread_before, 100 * part.spread_after);
        if (!part.left.empty()) text += fmt::format("   left as it was: {}", part.left);
        text += part.points.empty() && part.left.empty() ? "   as it was\n" : "\n";
        for (const FittedPoint& point : part.points)
            text += fmt::format("    {:<44}{:>14} -> {}\n", point.where, point.before, point.after);
    }
    for (const std::string& line : fit.suggestions) text += fmt::format("  for the cluster's file: {}\n", line);
    for (const std::string& note : fit.notes) text += fmt::format("  note: {}\n", note);
    return text;
}

std::string fit_json(const Fit& fit, const Inputs& in, const std::string& output) {
    using Json = nlohmann::ordered_json;
    Json json{{"name", fit.calibration.name},
              {"output", output.empty() ? Json(nullptr) : Json(output)},
              {"runs", describe(in)}};
    json["parts"] = Json::array();
    for (const FittedPart& part : fit.parts) {
        Json points = Json::array();
        for (const FittedPoint& p : part.points)
            points.push_back({{"where", p.where}, {"before", p.before}, {"after", p.after}});
        json["parts"].push_back({{"what", part.what},
                                 {"shapes", part.shapes},
                                 {"samples", part.samples},
                                 {"error_before", part.error_before},
                                 {"error_after", part.error_after},
                                 {"mean_error_size_before", part.spread_before},
                                 {"mean_error_size_after", part.spread_after},
                                 {"points", std::move(points)},
                                 {"left", part.left}});
    }
    json["suggestions"] = fit.suggestions;
    json["notes"] = fit.notes;
    return json.dump(2);
}

}  // namespace

int fit_verb(const Arguments& arguments) {
    std::string path, output, name, date;
    std::vector<std::string> files;
    std::size_t samples = 3;
    bool json = false;
    const Usage usage{
        "fit",
        "Corrects a scenario's calibration by measured steps and says what changed (docs/validation.md).\n"
        "FILEs are measured traces and the schedules that they are of, in any order.",
        "SCENARIO",
        &path,
        {{"-o,--output", "FILE", "write the new calibration there; - is stdout, in place of the report", &output},
         {"--name", "NAME", "its name (the old one with -fitted)", &name},
         {"--date", "DATE", "when the steps were measured, for its sources", &date},
         {"--samples", "N", "a kernel shape with fewer samples is not used (3)", nullptr, nullptr, &samples},
         {"--json", "", "what changed, as JSON", nullptr, &json}},
        "  sluice fit mine.yaml step.schedule measured.trace\n"
        "  sluice fit mine.yaml a.schedule a1.trace a2.trace b.schedule b.trace --date 2026-11-29 -o "
        "calibrations/mine-fitted.yaml",
        "",
        nullptr,
        "FILE",
        &files};
    if (!parse_arguments(usage, arguments)) return 0;
    if (json && output == "-")
        throw InputError("sluice fit: --json and the calibration both want stdout; give -o FILE");
    if (!output.empty()) require_writable(output);

    const Scenario scenario = read_scenario(path);
    if (name.empty()) name = scenario.calibration.name + "-fitted";
    require_name(name);
    Inputs in;
    read_inputs(files, in);
    const Fit fit = fit_calibration(scenario.calibration, in.runs, {samples, name, date, describe(in)});
    if (!output.empty())
        write_output(output, [&](std::ostream& out) { write_calibration(out, fit.calibration, fit.origin); });
    if (output == "-") return 0;
    fmt::print("{}", json ? fit_json(fit, in, output) + "\n" : fit_text(fit, in, scenario));
    return 0;
}

}  // namespace sluice

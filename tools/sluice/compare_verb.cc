#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/fingerprint.h"
#include "schedule/schedule_file.h"
#include "tools/sluice/comparison_report.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/schedule_of_trace.h"
#include "tools/sluice/verbs.h"
#include "traces/trace_file.h"
#include "validation/compare.h"

namespace sluice {

int compare_verb(const Arguments& arguments) {
    std::string predicted_path, schedule_path;
    std::vector<std::string> measured_paths;
    std::size_t ops = 10;
    bool json = false;
    const Usage usage{
        "compare",
        "Lays a predicted step beside measured ones, op by op, and says where the error is from (docs/validation.md).",
        "PREDICTED",
        &predicted_path,
        {{"--schedule", "FILE", "the schedule of the traces: tells kinds of collectives apart", &schedule_path},
         {"--ops", "N", "how many of the worst ops to list (10)", nullptr, nullptr, &ops},
         {"--json", "", "everything, as JSON", nullptr, &json}},
        "  sluice compare predicted.trace measured.trace\n"
        "  sluice compare predicted.trace step1.trace step2.trace step3.trace --ops 20\n"
        "  sluice compare tests/golden/traces/example.sltrace tests/golden/traces/example.sltrace",
        "",
        nullptr,
        "MEASURED",
        &measured_paths};
    if (!parse_arguments(usage, arguments)) return 0;

    const Trace predicted = read_trace(predicted_path);
    std::vector<Trace> measured;
    for (const std::string& path : measured_paths) {
        measured.push_back(read_trace(path));
        require_same_schedule(predicted, predicted_path, measured.back(), path);
    }
    const std::optional<Schedule> schedule = read_schedule_of(schedule_path, predicted, predicted_path);
    const Comparison comparison = compare(predicted, measured, {ops, schedule ? &*schedule : nullptr});
    const Trace& median = measured[comparison.median_step];
    fmt::print("{}", json ? comparison_json(comparison, predicted, median) + "\n"
                          : comparison_text(comparison, predicted, median));
    return 0;
}

}  // namespace sluice

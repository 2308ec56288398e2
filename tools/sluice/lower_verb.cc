#include <fmt/format.h>

#include <ostream>

#include "base/error.h"
#include "planner/lower.h"
#include "schedule/schedule_file.h"
#include "schedule/schedule_text.h"
#include "tools/sluice/choose_plan.h"
#include "tools/sluice/output.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/progress_line.h"
#include "tools/sluice/report.h"
#include "tools/sluice/verbs.h"

namespace sluice {

int lower_verb(const Arguments& arguments) {
    std::string path, output = "-";
    bool json = false;
    const Usage usage{
        "lower",
        "Writes the schedule of a scenario: what every rank does, in order.",
        "SCENARIO",
        &path,
        {{"-o,--output", "FILE", "where to; .txt is the text form, anything else binary; - is text on stdout", &output},
         {"--json", "", "print the plan as JSON (to stdout) instead of the schedule", nullptr, &json}},
        "  sluice lower scenarios/tiny.yaml\n"
        "  sluice lower scenarios/sppo-gpt7b-4m-a100x128.yaml -o step.schedule\n"
        "  sluice lower scenarios/tiny.yaml --json"};
    if (!parse_arguments(usage, arguments)) return 0;
    require_writable(output);

    Scenario scenario = read_scenario(path);
    Lowered lowered;
    lowered.reasons = make_choices(scenario);
    if (lowered.feasible()) {
        ProgressLine progress;
        lowered = lower(scenario, {[&](std::string_view pass) { progress.show(fmt::format("lower: {}", pass)); }});
    }
    if (json) fmt::print("{}\n", plan_json(scenario, lowered));
    for (const std::string& note : lowered.plan.notes) fmt::print(stderr, "note: {}\n", note);
    if (!lowered.feasible()) {
        if (!json) fmt::print(stderr, "{}", infeasible_text(scenario, lowered));
        return 1;
    }
    if (output != "-")
        write_schedule(output, lowered.schedule);
    else if (!json)
        write_output("-", [&](std::ostream& out) { out << to_text(lowered.schedule); });
    return 0;
}

}  // namespace sluice

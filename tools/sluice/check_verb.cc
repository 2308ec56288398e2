#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "schedule/schedule_file.h"
#include "schedule/verify.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/verbs.h"

namespace sluice {
namespace {

void print_json(const Schedule& schedule, const Diagnostics& diagnostics) {
    nlohmann::ordered_json json;
    json["valid"] = diagnostics.empty();
    json["ranks"] = schedule.ranks.size();
    json["ops"] = schedule.ops.size();
    json["buffers"] = schedule.buffers.size();
    json["diagnostics"] = nlohmann::ordered_json::array();
    for (const Diagnostic& d : diagnostics) {
        nlohmann::ordered_json entry{{"rule", d.rule}, {"message", d.message}};
        if (d.op != kNoOp) entry["op"] = index(d.op);
        if (d.buffer != kNoBuffer) entry["buffer"] = index(d.buffer);
        json["diagnostics"].push_back(std::move(entry));
    }
    fmt::print("{}\n", json.dump(2));
}

}  // namespace

int check_verb(const Arguments& arguments) {
    std::string path;
    bool json = false;
    const Usage usage{"check",
                      "Verifies a schedule and prints every problem (docs/schedule-rules.md has the rules).",
                      "SCHEDULE",
                      &path,
                      {{"--json", "", "print the result as JSON", nullptr, &json}},
                      "  sluice check step.schedule\n"
                      "  sluice check tests/golden/schedules/multiplexed.txt --json"};
    if (!parse_arguments(usage, arguments)) return 0;

    const Schedule schedule = read_schedule(path);
    const Diagnostics diagnostics = verify(schedule);
    if (json) {
        print_json(schedule, diagnostics);
        return diagnostics.empty() ? 0 : 1;
    }
    for (const Diagnostic& d : diagnostics) fmt::print("{}: {}: {}\n", path, d.rule, d.message);
    if (diagnostics.empty())
        fmt::print("{}: valid, {} ranks, {} ops, {} buffers\n", path, schedule.ranks.size(), schedule.ops.size(),
                   schedule.buffers.size());
    else
        fmt::print("{}: {} problem{}\n", path, diagnostics.size(), diagnostics.size() == 1 ? "" : "s");
    return diagnostics.empty() ? 0 : 1;
}

}  // namespace sluice

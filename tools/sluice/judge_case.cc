#include "tools/sluice/judge_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "scenarios/scenario.h"
#include "schedule/schedule_file.h"
#include "sim/simulate.h"
#include "tools/sluice/schedule_of_trace.h"
#include "traces/trace_file.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> measured_traces(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.starts_with("measured") && name.ends_with(".trace")) found.push_back(entry->path());
    }
    std::sort(found.begin(), found.end());
    return found;
}

fs::path schedule_path(const fs::path& folder) {
    return fs::exists(folder / "schedule.txt") ? folder / "schedule.txt" : folder / "schedule";
}

Trace predict(const fs::path& folder) {
    if (fs::exists(folder / "predicted.trace")) return read_trace(folder / "predicted.trace");
    const Scenario scenario = read_scenario(folder / "scenario.yaml");
    const Schedule schedule = read_schedule(schedule_path(folder));
    if (static_cast<std::int64_t>(schedule.ranks.size()) > scenario.cluster.gpus())
        throw InputError(fmt::format("{}: {} ranks, but cluster {} has {} GPUs", schedule_path(folder).string(),
                                     schedule.ranks.size(), scenario.cluster.name, scenario.cluster.gpus()));
    Simulation simulation = simulate(schedule, scenario.cluster, scenario.calibration);
    if (!simulation.stuck.empty())
        throw InputError(fmt::format("{}: {}", schedule_path(folder).string(), simulation.stuck.front().message));
    simulation.trace.provenance.scenario = scenario.name;
    simulation.trace.provenance.schedule_fingerprint = schedule_fingerprint(schedule);
    return std::move(simulation.trace);
}

}  // namespace

std::vector<fs::path> find_cases(const fs::path& folder) {
    if (!measured_traces(folder).empty()) return {folder};
    std::vector<fs::path> cases;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
        if (entry.is_directory() && !measured_traces(entry.path()).empty()) cases.push_back(entry.path());
    std::sort(cases.begin(), cases.end());
    if (cases.empty())
        throw InputError(fmt::format(
            "{}: no measured*.trace in it or in its folders, expected a case or a folder of cases", folder.string()));
    return cases;
}

JudgeCase read_case(const fs::path& folder, Tolerances& tolerances) {
    JudgeCase result{folder.filename().string(), predict(folder), {}};
    if (result.name.empty()) result.name = folder.parent_path().filename().string();  // "cases/tiny/"
    for (const fs::path& path : measured_traces(folder)) {
        result.measured.push_back(read_trace(path));
        require_same_schedule(result.predicted, (folder / "schedule").string(), result.measured.back(), path.string());
    }
    const fs::path file = folder / "tolerances";
    if (fs::exists(file)) read_tolerances(read_file(file, 1_MiB), file.string(), tolerances);
    return result;
}

}  // namespace sluice

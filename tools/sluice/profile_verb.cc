#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <ostream>

#include "base/error.h"
#include "base/nearest_name.h"
#include "runtime/profile/kernel_bench.h"
#include "scenarios/write_calibration.h"
#include "scenarios/write_cluster.h"
#include "tools/sluice/output.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/profile_report.h"
#include "tools/sluice/progress_line.h"
#include "tools/sluice/verbs.h"

namespace sluice {
namespace {

std::string today() {
    const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now())};
    return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                       static_cast<unsigned>(day.day()));
}

void refuse_other_devices(const std::string& device) {
    if (device == "cpu") return;
    throw InputError(fmt::format("sluice profile: --device: got '{}', expected cpu; {}", device,
                                 device == "cuda" || device == "gpu" ? "GPUs are not measured yet, their calibrations "
                                                                       "are written by hand"
                                                                     : "see sluice profile --help"));
}

// A name that scenario files may use: that of the file, or one for a file that is not written.
std::string name_of(const std::string& path) {
    if (path.empty()) return "this-machine";
    const std::filesystem::path file(path);
    const std::string stem = file.stem().string();
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    bool fits = file.extension() == ".yaml" && !stem.empty() && stem.size() <= 64 && allowed(stem.front());
    for (const char c : stem) fits = fits && (allowed(c) || c == '-' || c == '_' || c == '.');
    if (!fits)
        throw InputError(
            fmt::format("sluice profile: '{}': expected NAME.yaml with letters, digits, '-', '_' and '.' "
                        "in NAME, at most 64: scenarios name the file so",
                        path));
    require_writable(path);
    return stem;
}

ProfileReport profile(const ProfileRequest& request) {
    ProfileReport report{request, {}, {}, today(), SLUICE_VERSION, {}, {}, 0};
    const auto begin = std::chrono::steady_clock::now();
    ProgressLine line;
    report.profile =
        profile_cpu(request, [&](std::string_view what, double fraction) { line.show(what, 0.9 * fraction); });
    line.show("other shapes", 0.9);
    KernelBench bench{request.quick ? MeasureEffort{Seconds{3e-4}, Seconds{2e-3}, 3, Seconds{0.05}} : MeasureEffort{}};
    report.check = check_profile(bench, report.profile.calibration, request.quick);
    report.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return report;
}

}  // namespace

int profile_verb(const Arguments& arguments) {
    std::string device = "cpu", calibration_file, cluster_file;
    std::size_t ranks = 1;
    bool quick = false, json = false;
    const Usage usage{
        "profile",
        "Measures this machine as the CPU backend uses it: kernels over a grid of shapes, copies, collectives. Takes "
        "about two minutes on an idle machine; leave it alone meanwhile.",
        "",
        nullptr,
        {{"--device", "NAME", "cpu, the only device so far", &device},
         {"--out-calibration", "FILE", "write the rates, for calibrations/ of scenarios", &calibration_file},
         {"--out-cluster", "FILE", "write the machine as a cluster, for clusters/", &cluster_file},
         {"--ranks", "N", "how many ranks compute at the same time (default 1)", nullptr, nullptr, &ranks},
         {"--quick", "", "seconds instead of minutes: coarse tables", nullptr, &quick},
         {"--json", "", "print the summary as JSON", nullptr, &json}},
        "  sluice profile --device cpu --out-calibration calibrations/laptop.yaml --out-cluster clusters/laptop.yaml\n"
        "  sluice profile --device cpu --quick --json"};
    if (!parse_arguments(usage, arguments)) return 0;
    refuse_other_devices(device);
    const ProfileRequest request{name_of(calibration_file), quick, static_cast<std::int64_t>(ranks)};
    if (ranks > 64) throw InputError(fmt::format("sluice profile: --ranks: got {}, expected at most 64", ranks));
    const std::string cluster_name = name_of(cluster_file);
    ProfileReport report = profile(request);
    report.profile.cluster.name = cluster_name;
    report.calibration_file = calibration_file, report.cluster_file = cluster_file;
    const CpuProfile& found = report.profile;
    if (!calibration_file.empty())
        write_output(calibration_file,
                     [&](std::ostream& out) { write_calibration(out, found.calibration, calibration_origin(report)); });
    if (!cluster_file.empty())
        write_output(cluster_file,
                     [&](std::ostream& out) { write_cluster(out, found.cluster, cluster_origin(report)); });
    fmt::print("{}{}", json ? profile_json(report) : profile_text(report), json ? "\n" : "");
    return 0;
}

}  // namespace sluice

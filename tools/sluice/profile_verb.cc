#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <ostream>

#include "base/error.h"
#include "base/nearest_name.h"
#include "runtime/profile/kernel_bench.h"
#ifdef SLUICE_HAS_CUDA
#include "runtime/cuda/gpu_parts.h"
#include "runtime/cuda_profile/gpu_messages.h"
#include "runtime/cuda_profile/gpu_profile.h"
#endif
#ifdef SLUICE_HAS_NCCL
#include "runtime/nccl/nccl_functions.h"
#include "runtime/nccl/nccl_transport.h"
#endif
#include "scenarios/write_calibration.h"
#include "scenarios/write_cluster.h"
#include "tools/sluice/gpu_profile_report.h"
#include "tools/sluice/import_profile.h"
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

enum class ProfiledDevice { kCpu, kCuda };

ProfiledDevice parse_profiled_device(const std::string& word) {
    if (word == "cpu") return ProfiledDevice::kCpu;
    if (word != "cuda")
        throw InputError(
            fmt::format("sluice profile: --device: got '{}', expected cpu or cuda; see sluice profile --help", word));
#ifndef SLUICE_HAS_CUDA
    throw InputError(
        "sluice profile: --device: got 'cuda', expected cpu: this build has no CUDA backend (cmake --preset cuda makes "
        "one)");
#else
    return ProfiledDevice::kCuda;
#endif
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

void expect_no_import(const ImportRequest& r) {
    if (!r.files.empty())
        throw InputError(fmt::format("sluice profile: unexpected '{}' without --import; see sluice profile --help",
                                     r.files.front()));
    for (const auto& [flag, value] :
         {std::pair{"--calibration", &r.calibration}, std::pair{"--cluster", &r.cluster}, std::pair{"--date", &r.date}})
        if (!value->empty()) throw InputError(fmt::format("sluice profile: {}: is for --import alone", flag));
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Measures, writes the files, and returns what is to be printed.
std::string profile_of_cpu(const ProfileRequest& request, const std::string& cluster_name, const ProfileFiles& files,
                           bool json) {
    ProfileReport report{request, {}, {}, today(), SLUICE_VERSION, files.calibration, files.cluster, 0};
    const auto begin = std::chrono::steady_clock::now();
    {
        ProgressLine line;
        report.profile =
            profile_cpu(request, [&](std::string_view what, double fraction) { line.show(what, 0.9 * fraction); });
        line.show("other shapes", 0.9);
        KernelBench bench{request.quick ? MeasureEffort{Seconds{3e-4}, Seconds{2e-3}, 3, Seconds{0.05}}
                                        : MeasureEffort{}};
        report.check = check_profile(bench, report.profile.calibration, request.quick);
    }
    report.wall_seconds = seconds_since(begin);
    CpuProfile& found = report.profile;
    found.cluster.name = cluster_name;
    if (!files.calibration.empty())
        write_output(files.calibration,
                     [&](std::ostream& out) { write_calibration(out, found.calibration, calibration_origin(report)); });
    if (!files.cluster.empty())
        write_output(files.cluster,
                     [&](std::ostream& out) { write_cluster(out, found.cluster, cluster_origin(report)); });
    return json ? profile_json(report) + "\n" : profile_text(report);
}

// How many of what: a GPU in parts, or several GPUs.
struct GpuCounts {
    std::size_t parts = 1, gpus = 1;
};

#ifdef SLUICE_HAS_CUDA
#ifdef SLUICE_HAS_NCCL
GpuMessages messages_of_gpus(std::size_t gpus, bool quick, const ProfileProgress& progress) {
    Rendezvous job({}, {"profile", 1});  // all of them are of this process
    GpuMessages messages = cuda::profile_messages(
        static_cast<int>(gpus), cuda::nccl_transport(job, cuda::nccl_library(), cuda::stream_flags()), quick, progress);
    messages.nccl = cuda::nccl_version();
    return messages;
}
#else
GpuMessages messages_of_gpus(std::size_t, bool, const ProfileProgress&) {
    throw InputError(
        "sluice profile: --gpus: this build has no NCCL, which several GPUs need (NCCL_ROOT names its folder)");
}
#endif

GpuFigures measure_gpus(const ProfileRequest& request, const GpuCounts& counts) {
    if (counts.gpus > 1) cuda::raise_stream_connections();  // before anything is asked of CUDA
    ProgressLine line;
    const double of_one = counts.gpus > 1 ? 0.7 : 1;
    // Messages first: what is wrong with them shows before two minutes of kernels.
    GpuMessages messages;
    if (counts.gpus > 1)
        messages = messages_of_gpus(counts.gpus, request.quick, [&](std::string_view what, double fraction) {
            line.show(what, (1 - of_one) * fraction);
        });
    GpuFigures figures = cuda::profile_gpu(
        request.quick, static_cast<int>(counts.parts),
        [&](std::string_view what, double fraction) { line.show(what, 1 - of_one + of_one * fraction); });
    figures.messages = std::move(messages);
    return figures;
}

std::string profile_of_gpu(const ProfileRequest& request, const GpuCounts& counts, const std::string& cluster_name,
                           const ProfileFiles& files, bool json) {
    const auto begin = std::chrono::steady_clock::now();
    GpuFigures figures = measure_gpus(request, counts);
    GpuProfileReport report = gpu_profile_report(std::move(figures), request.name, cluster_name);
    report.quick = request.quick, report.date = today(), report.version = SLUICE_VERSION;
    report.calibration_file = files.calibration, report.cluster_file = files.cluster;
    report.wall_seconds = seconds_since(begin);
    if (!files.calibration.empty())
        write_output(files.calibration, [&](std::ostream& out) {
            write_calibration(out, report.calibration, gpu_calibration_origin(report));
        });
    if (!files.cluster.empty())
        write_output(files.cluster,
                     [&](std::ostream& out) { write_cluster(out, report.cluster, gpu_cluster_origin(report)); });
    return json ? gpu_profile_json(report) + "\n" : gpu_profile_text(report);
}
#else
std::string profile_of_gpu(const ProfileRequest&, const GpuCounts&, const std::string&, const ProfileFiles&, bool) {
    throw InternalError("this build has no CUDA backend");
}
#endif

void expect_counts(const GpuCounts& counts, ProfiledDevice device) {
    if (counts.parts > 16)
        throw InputError(fmt::format("sluice profile: --parts: got {}, expected 1 to 16", counts.parts));
    if (counts.gpus > 16)
        throw InputError(fmt::format("sluice profile: --gpus: got {}, expected 1 to 16", counts.gpus));
    if (device == ProfiledDevice::kCpu && counts.parts > 1)
        throw InputError(fmt::format(
            "sluice profile: --parts: got {}, expected 1 with --device cpu: parts are those of a GPU", counts.parts));
    if (device == ProfiledDevice::kCpu && counts.gpus > 1)
        throw InputError(
            fmt::format("sluice profile: --gpus: got {}, expected 1 with --device cpu: its ranks are threads (--ranks)",
                        counts.gpus));
    if (counts.parts > 1 && counts.gpus > 1)
        throw InputError("sluice profile: got --parts and --gpus, expected one of them: parts are those of one GPU");
}

}  // namespace

int profile_verb(const Arguments& arguments) {
    std::string device = "cpu";
    ProfileFiles files;
    std::size_t ranks = 1;
    GpuCounts counts;
    bool quick = false, json = false, import = false;
    ImportRequest imported;
    const Usage usage{
        "profile",
        "Measures this machine as the CPU backend or the CUDA backend uses it: kernels over a grid of shapes, copies, "
        "collectives of the CPU. Takes about two minutes on an idle machine; leave it alone meanwhile.\n"
        "With --import, reads what nccl-tests and nvbandwidth measured elsewhere from FILEs (docs/profile.md).",
        "",
        nullptr,
        {{"--device", "NAME", "cpu (default) or cuda, one GPU, where it is built", &device},
         {"--out-calibration", "FILE", "write the rates, for calibrations/ of scenarios", &files.calibration},
         {"--out-cluster", "FILE", "write the machine as a cluster, for clusters/", &files.cluster},
         {"--ranks", "N", "how many ranks compute at the same time (default 1)", nullptr, nullptr, &ranks},
         {"--parts", "P", "cut the GPU into P parts, and measure one while the others are busy (default 1)", nullptr,
          nullptr, &counts.parts},
         {"--gpus", "N", "measure messages between N GPUs of this machine, too, through NCCL (default 1: none)",
          nullptr, nullptr, &counts.gpus},
         {"--quick", "", "seconds instead of minutes: coarse tables", nullptr, &quick},
         {"--import", "", "measure nothing: read output of nccl-tests and nvbandwidth, text or JSON", nullptr, &import},
         {"--calibration", "FILE", "with --import: the calibration to change", &imported.calibration},
         {"--cluster", "FILE", "with --import: the cluster to change", &imported.cluster},
         {"--date", "DATE", "with --import: when it was measured, for the sources", &imported.date},
         {"--json", "", "print the summary as JSON", nullptr, &json}},
        "  sluice profile --device cpu --out-calibration calibrations/laptop.yaml --out-cluster clusters/laptop.yaml\n"
        "  sluice profile --device cpu --quick --json\n"
        "  sluice profile --device cuda --out-calibration calibrations/h200.yaml\n"
        "  sluice profile --device cuda --parts 2 --out-calibration h200-split2.yaml\n"
        "  sluice profile --device cuda --gpus 2 --out-calibration h200x2.yaml --out-cluster h200x2-cluster.yaml\n"
        "  sluice profile --import all_gather.txt nvbandwidth.json --calibration h100.yaml --out-calibration mine.yaml",
        "",
        nullptr,
        "FILE",
        &imported.files,
        false};
    if (!parse_arguments(usage, arguments)) return 0;
    if (import) {
        imported.calibration_name = name_of(files.calibration), imported.cluster_name = name_of(files.cluster);
        imported.version = SLUICE_VERSION;
        fmt::print("{}", import_profile(imported, files, json));
        return 0;
    }
    expect_no_import(imported);
    const ProfiledDevice profiled = parse_profiled_device(device);
    const ProfileRequest request{name_of(files.calibration), quick, static_cast<std::int64_t>(ranks)};
    if (ranks > 64) throw InputError(fmt::format("sluice profile: --ranks: got {}, expected at most 64", ranks));
    if (profiled == ProfiledDevice::kCuda && ranks > 1)
        throw InputError(fmt::format(
            "sluice profile: --ranks: got {}, expected 1 with --device cuda: one GPU runs one rank", ranks));
    expect_counts(counts, profiled);
    const std::string cluster_name = name_of(files.cluster);
    fmt::print("{}", profiled == ProfiledDevice::kCuda ? profile_of_gpu(request, counts, cluster_name, files, json)
                                                       : profile_of_cpu(request, cluster_name, files, json));
    return 0;
}

}  // namespace sluice

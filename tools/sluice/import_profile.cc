#include "tools/sluice/import_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "base/error.h"
#include "scenarios/write_calibration.h"
#include "scenarios/write_cluster.h"
#include "tools/sluice/output.h"

namespace sluice {
namespace {

void expect_base(const char* kind, const char* rest, const std::string& output, const std::string& base) {
    if (!output.empty() && base.empty())
        throw InputError(
            fmt::format("sluice profile: --out-{0}: expected --{0} FILE with --import, the {0} to change: "
                        "{1} are not in these files",
                        kind, rest));
    if (output.empty() && !base.empty() && std::string_view(kind) == "calibration")
        throw InputError(fmt::format("sluice profile: --{0}: expected --out-{0} FILE, the changed {0}", kind));
}

void expect_found(const char* kind, const char* what, bool found) {
    if (found) return;
    throw InputError(fmt::format("sluice profile: --out-{}: the files have nothing for it, expected {}", kind, what));
}

void expect_date(const std::string& date) {
    const bool plain = std::all_of(date.begin(), date.end(), [](char c) { return c >= ' ' && c <= '~'; });
    if (!plain || date.size() > 40)
        throw InputError(
            fmt::format("sluice profile: --date: got {} characters, expected at most 40 of printable "
                        "ASCII, as in 2026-11-30",
                        date.size()));
}

}  // namespace

std::string import_profile(const ImportRequest& request, const ProfileFiles& files, bool json) {
    if (request.files.empty()) throw InputError("sluice profile: --import: got no file, expected at least one");
    expect_base("calibration", "rates of kernels", files.calibration, request.calibration);
    expect_base("cluster", "GPUs and their memory", files.cluster, request.cluster);
    expect_date(request.date);
    const Import import = import_measurements(request);
    if (!files.calibration.empty()) {
        expect_found("calibration", "collectives by nccl-tests", import.calibration.has_value());
        write_output(files.calibration, [&](std::ostream& out) {
            write_calibration(out, *import.calibration, import.calibration_origin);
        });
    }
    if (!files.cluster.empty()) {
        expect_found("cluster", "sendrecv_perf of nccl-tests, or nvbandwidth", import.cluster.has_value());
        write_output(files.cluster,
                     [&](std::ostream& out) { write_cluster(out, *import.cluster, import.cluster_origin); });
    }
    if (json) return import_json(import, files.calibration, files.cluster) + "\n";
    std::string text = import_text(import);
    if (!files.calibration.empty()) text += fmt::format("calibration: {}\n", files.calibration);
    if (!files.cluster.empty()) text += fmt::format("cluster: {}\n", files.cluster);
    return text;
}

}  // namespace sluice

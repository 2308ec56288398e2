// What nccl-tests and nvbandwidth measured elsewhere, put into a calibration and a cluster: `sluice profile --import`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/profile/link_rates.h"
#include "runtime/profile/message_tables.h"
#include "scenarios/calibration.h"
#include "scenarios/cluster.h"
#include "scenarios/file_origin.h"
#include "tools/sluice/profile_check.h"

namespace sluice {

struct ImportRequest {
    std::vector<std::string> files;              // paths, or all_gather_perf=PATH
    std::string calibration, cluster;            // to change, paths; "": none
    std::string calibration_name, cluster_name;  // of what is made of them
    std::string date;                            // of the measurements; "": where a file tells it
    std::string version;                         // of sluice
};

// One file as a source of numbers.
struct ImportedSource {
    std::string id, title;
};

// One run of a program of nccl-tests: as it was measured, and as it is foretold with what was made of all.
struct ImportedRun {
    std::size_t source = 0;  // index
    MessageKind kind{};
    std::size_t members = 0, hosts = 0, rails = 0;
    Bytes smallest{}, largest{};
    Seconds least{};                 // of its calls
    BytesPerSecond bus_bandwidth{};  // of the largest, as nccl-tests has it
    PredictionError error;
};

struct Import {
    std::vector<ImportedSource> sources;
    std::vector<ImportedRun> runs;
    CollectiveTables tables;
    std::optional<TransferLine> nvlink, network;
    LinkRates links;
    std::vector<std::string> notes;
    // Of those that were asked for and that the files say something of.
    std::optional<Calibration> calibration;
    std::optional<Cluster> cluster;
    FileOrigin calibration_origin, cluster_origin;
};

// Throws InputError: files that are wrong (file:line:col), GPUs that the cluster lacks, groups across nodes without a
// cluster, whose adapters their rates are shared out to.
Import import_measurements(const ImportRequest& request);

std::string import_text(const Import&);
std::string import_json(const Import&, const std::string& calibration_file, const std::string& cluster_file);

}  // namespace sluice

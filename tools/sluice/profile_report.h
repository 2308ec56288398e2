// What `sluice profile` says: on stdout, and in the files that it writes.
#pragma once

#include <string>
#include <vector>

#include "runtime/profile/cpu_profile.h"
#include "scenarios/file_origin.h"
#include "tools/sluice/profile_check.h"

namespace sluice {

struct ProfileReport {
    ProfileRequest request;
    CpuProfile profile;
    ProfileCheck check;
    std::string date;                            // "2026-11-29"
    std::string version;                         // of sluice
    std::string calibration_file, cluster_file;  // "": not written
    double wall_seconds = 0;
};

// What a reader should know before trusting the figures: a busy machine, more ranks than cores, a quick run.
std::vector<std::string> profile_notes(const ProfileReport&);

std::string profile_text(const ProfileReport&);
std::string profile_json(const ProfileReport&);

// Provenance of the two files: machine, versions, date, spread.
FileOrigin calibration_origin(const ProfileReport&);
FileOrigin cluster_origin(const ProfileReport&);

}  // namespace sluice

// Private to `sluice profile`: its form --import.
#pragma once

#include <string>

#include "tools/sluice/import_measurements.h"

namespace sluice {

struct ProfileFiles {
    std::string calibration, cluster;  // "": not written
};

// Reads, writes the files that were asked for, and returns what is to be printed. Throws InputError where a file is
// asked for that the measurements say nothing of, or without what it is made from.
std::string import_profile(const ImportRequest& request, const ProfileFiles& files, bool json);

}  // namespace sluice

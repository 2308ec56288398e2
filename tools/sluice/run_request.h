// What the command line of `sluice run` asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"
#include "runtime/rendezvous/launch_place.h"
#include "tools/sluice/training_run.h"
#include "tools/sluice/verbs.h"

namespace sluice {

struct RunRequest {
    std::string scenario;
    TrainingOptions options;
    std::int64_t patience = 0;          // of --adapt; 0: none
    std::string log, trace, predicted;  // paths; empty: none
    LaunchPlace place;                  // of this process
    std::optional<Seconds> stall;       // nothing: not said
    std::string rank_slice;             // a rank, to be run alone; empty: all
    std::string slice, delays;          // paths, with that; empty: planned here, no delays
    bool json = false;
};

// Nothing where only help was asked for. Throws InputError in one line.
std::optional<RunRequest> read_run_request(const Arguments&);

}  // namespace sluice

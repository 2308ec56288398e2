// Ranks as threads of this process, in fp32.
#pragma once

#include <optional>

#include "runtime/cpu/cpu_run.h"
#include "runtime/decoder/engine.h"
#include "runtime/stand_in.h"

namespace sluice {

// The engine throws InputError for a schedule that cannot be run, EnvironmentError when memory is short. All ranks of
// the schedule are local, or `stand_ins` take the place of the others.
EngineMaker cpu_engine(const CpuOptions& options = {}, const std::optional<StandIns>& stand_ins = {});

}  // namespace sluice

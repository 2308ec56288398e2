// Ranks as threads of this process, in fp32.
#pragma once

#include "runtime/cpu/cpu_run.h"
#include "runtime/decoder/engine.h"

namespace sluice {

// The engine throws InputError for a schedule that cannot be run, EnvironmentError when memory is short.
EngineMaker cpu_engine(const CpuOptions& options = {});

}  // namespace sluice

// A tool may include every folder, and CLI11.
#include "planner/plan.h"
#include "runtime/executor.h"
#include "sim/replay.h"
#include "validation/compare.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include "schedule/schedule.pb.h"
#include <simgrid/s4u.hpp>
#include <cuda_runtime.h>

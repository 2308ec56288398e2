#include "traces/trace.h"
#include <cblas.h>
#include <hwloc.h>
#include <cuda_runtime.h>
#include "sim/replay.h"
#include "models/kernel_cost.h"
#include "planner/plan.h"
#include <simgrid/s4u.hpp>

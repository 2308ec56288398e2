#include "traces/trace.h"
#include "sim/replay.h"
#include "runtime/executor.h"
#include "planner/plan.h"

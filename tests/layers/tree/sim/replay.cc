#include "sim/replay.h"
#include <simgrid/s4u.hpp>
#include "runtime/executor.h"
#include "planner/plan.h"

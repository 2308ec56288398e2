#include "models/kernel_cost.h"
#include <boost/graph/dag_shortest_paths.hpp>
#include "traces/trace.h"
#include "sim/replay.h"
#include <yaml-cpp/yaml.h>

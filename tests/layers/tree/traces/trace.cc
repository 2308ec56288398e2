#include "traces/trace.h"
#include "traces/trace.pb.h"
#include <nlohmann/json.hpp>
#include "models/kernel_cost.h"

#include "traces/trace.h"
#include "traces/trace.pb.h"
#include <nlohmann/json.hpp>
#include "schedule/schedule.h"

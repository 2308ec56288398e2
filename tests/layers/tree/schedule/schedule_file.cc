#include "schedule/schedule.h"
#include "schedule/schedule.pb.h"
#include "traces/trace.pb.h"
#include <boost/graph/topological_sort.hpp>
#include <google/protobuf/message.h>
#include <nlohmann/json.hpp>

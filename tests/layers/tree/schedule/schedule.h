#pragma once
#include "base/units.h"
#include "traces/trace.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.pb.h"
#include <boost/graph/topological_sort.hpp>
#include <google/protobuf/message.h>

#include "schedule/schedule.h"
#include "scenarios/scenario.h"
#include "planner/plan.h"
#include <boost/math/special_functions.hpp>

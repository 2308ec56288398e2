#include "traces/lane_time.h"

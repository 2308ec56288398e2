#pragma once
#include "traces/trace.h"
#include <simgrid/s4u.hpp>
#include <xbt/log.h>

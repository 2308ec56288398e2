#pragma once
#include <cstdint>
#include <fmt/format.h>
#include "schedule/schedule.h"

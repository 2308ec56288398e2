#include "schedule/place_memory.h"

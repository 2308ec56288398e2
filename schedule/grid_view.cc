#include "schedule/grid_view.h"

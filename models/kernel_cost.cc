#include "models/kernel_cost.h"

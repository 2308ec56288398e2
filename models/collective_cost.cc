#include "models/collective_cost.h"

#include "scenarios/scenario.h"
#include <yaml-cpp/yaml.h>
#include "models/kernel_cost.h"

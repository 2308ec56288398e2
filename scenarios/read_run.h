// The block `run` of a scenario. Private to scenarios/.
#pragma once

#include "scenarios/run_terms.h"
#include "scenarios/yaml_field.h"

namespace sluice {

RunTerms read_run(const YamlField&);

}  // namespace sluice

// Private to scenarios/: the policy part of docs/scenarios.md.
#pragma once

#include "scenarios/scenario.h"
#include "scenarios/yaml_field.h"

namespace sluice {

// Reads `policy` and checks it against the rest of the scenario, which has been read already.
Policy read_policy(const YamlField& field, const Scenario& scenario);

}  // namespace sluice

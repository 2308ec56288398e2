// Private to scenarios/: the cluster part of docs/scenarios.md.
#pragma once

#include <string_view>

#include "scenarios/cluster.h"
#include "scenarios/yaml_field.h"

namespace sluice {

// `name` is used where the file gives none.
Cluster read_cluster(const YamlField& root, std::string_view name);

// Replaces what a scenario's {use: NAME, ...} gives and checks the result again. Other keys than these are refused.
void override_cluster(Cluster& cluster, const YamlField& overrides);

}  // namespace sluice

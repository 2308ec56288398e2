// Private to scenarios/.
#pragma once

#include "scenarios/scenario.h"
#include "scenarios/yaml_field.h"

namespace sluice {

// Reads `other_job` and takes what it uses off the cluster. Throws where nothing would be left.
OtherJob take_other_job(const YamlField&, Cluster&);

}  // namespace sluice

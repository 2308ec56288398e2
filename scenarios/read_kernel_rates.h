// Private to scenarios/: the tables of a calibration that say how fast kernels run. docs/scenarios.md, "Calibration".
#pragma once

#include <vector>

#include "scenarios/calibration.h"
#include "scenarios/sourced_block.h"
#include "scenarios/yaml_field.h"

namespace sluice {

std::vector<GemmPoint> read_gemm(const YamlField& field, SourceList& sources);
std::vector<AttentionPoint> read_attention(const YamlField& field, SourceList& sources);
std::vector<PointwisePoint> read_pointwise_kernels(const YamlField& field, SourceList& sources);
std::vector<PointwiseKernel> read_fused(const YamlField& field, SourceList& sources);

}  // namespace sluice

// What measurements of a GPU say, as the two files that scenarios use. Pure: docs/profile.md has the rules.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/profile/gpu_figures.h"
#include "scenarios/calibration.h"
#include "scenarios/cluster.h"

namespace sluice {

// A row for every half power of two from 512 on that has products near: the geometric mean of their sizes, and the
// median of their rates, each the mean of a layer's three products. Requires: one at least.
std::vector<GemmPoint> gemm_table(std::span<const ProductFigure>);

// A full grid, of what GpuFigures::attention has.
std::vector<AttentionPoint> attention_table(std::span<const AttentionFigure>);

std::vector<PointwisePoint> pointwise_table(std::span<const PointwiseFigure>);

// Bytes per (head, query) and per (head, key) as Calibration has them: what the memory model makes of them covers every
// figure, beside kWorkspaceSlack.
struct AttentionWorkspace {
    double forward = 0, backward = 0, grouped_backward = 0;
};
AttentionWorkspace attention_workspace(std::span<const AttentionFigure>);

// Parts of a workspace begin at multiples of 256 bytes, and libraries ask for some hundred bytes whatever the shape.
// What is said to be for products, whose own workspace belongs to the engine.
inline constexpr Bytes kWorkspaceSlack = 64_KiB;

Calibration gpu_calibration(const GpuFigures&, const std::string& name);
// One GPU and its host; a parted one with as many equal parts, each with its share of the memory.
Cluster gpu_cluster(const GpuFigures&, const std::string& name);

}  // namespace sluice

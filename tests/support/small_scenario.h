// A scenario made of round numbers, for tests that vary one thing at a time.
#pragma once

#include "scenarios/scenario.h"

namespace sluice {

// One node of sp x pp GPUs of 1 TFLOP/s and 1 GB; copies at 1 GB/s; 4 layers, hidden 256, 8 heads.
inline Scenario small_scenario(std::int64_t sp = 2, std::int64_t pp = 2, std::int64_t n = 4) {
    Scenario s;
    s.name = "small";
    s.model = {"small",          4,    256, 8, 8, 32, 1024, 1024, ActivationFunction::kGelu, Norm::kLayerNorm,
               Positions::kRope, true, true};
    Cluster& c = s.cluster;
    c.name = "small";
    c.nodes = 1;
    c.gpus_per_node = sp * pp;
    c.gpu = {"round", 1_GiB, 0_B, FlopsPerSecond{1e12}, BytesPerSecond{1e12}};
    c.pcie = {BytesPerSecond{1e9}, BytesPerSecond{1e9}, BytesPerSecond{2e9}, Seconds{1e-6}, 1,
              BytesPerSecond{1e9}, BytesPerSecond{1e9}};
    c.host = {64_GiB, 0_B, 1, BytesPerSecond{100e9}};
    c.nvlink = {BytesPerSecond{100e9}, Seconds{1e-6}};
    c.network = {0, BytesPerSecond{1e9}, Seconds{1e-6}, false};
    Calibration& k = s.calibration;
    k.name = "round";
    k.gemm = {{128, FlopsPerSecond{0.5e12}}, {1024, FlopsPerSecond{0.8e12}}};
    k.attention = {{1024, 1024, FlopsPerSecond{0.5e12}, FlopsPerSecond{0.4e12}}};
    k.pointwise = BytesPerSecond{0.8e12};
    k.kernel_gap = Seconds{1e-6};
    k.nvlink_collective = {{1_MiB, BytesPerSecond{80e9}}};
    k.network_collective = {{1_MiB, BytesPerSecond{1e9}}};
    k.collective_step = Seconds{1e-6};
    k.gemm_workspace = 1_MiB;
    k.attention_forward_workspace = 4, k.attention_backward_workspace = 136;
    s.sequence = Tokens{8192};
    s.policy.sp = sp, s.policy.pp = pp, s.policy.n = n;
    s.policy.partition.alignment = Tokens{sp};
    s.policy.placement = AdaptiveOffload{};
    return s;
}

}  // namespace sluice

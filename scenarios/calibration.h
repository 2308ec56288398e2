// Measured rates of kernels and libraries on one GPU type: what turns work into seconds. Every number in a file carries
// its source. Lookups (models/) interpolate in the logarithm of the size and hold the end values outside the table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace sluice {

// A GEMM's rate by its size, the geometric mean of its dimensions.
struct GemmPoint {
    double size = 0;  // (m n k)^(1/3)
    FlopsPerSecond rate{};
    friend bool operator==(const GemmPoint&, const GemmPoint&) = default;
};

// Attention by queries of the call and keys it attends to; FLOPs are the unmasked ones (models/kernel_cost.h).
struct AttentionPoint {
    std::int64_t queries = 0, keys = 0;  // tokens; the points of a table form a full grid
    FlopsPerSecond forward{}, backward{};
    friend bool operator==(const AttentionPoint&, const AttentionPoint&) = default;
};

// A collective's or transfer's rate by message size, nccl-tests conventions: `size` is the whole tensor of one rank,
// `bus_bandwidth` what one link of one ring carries (algorithm bandwidth times (n-1)/n; twice that for all-reduce).
struct BandwidthPoint {
    Bytes size{};
    BytesPerSecond bus_bandwidth{};
    friend bool operator==(const BandwidthPoint&, const BandwidthPoint&) = default;
};

struct Interference {  // factors on a compute op's rate while other engines of its GPU run; 1: none
    double copy_out = 1, copy_in = 1, collective = 1;
    friend bool operator==(const Interference&, const Interference&) = default;
};

struct Calibration {
    std::string name;
    std::vector<GemmPoint> gemm;            // ascending size
    std::vector<AttentionPoint> attention;  // by queries, then keys
    BytesPerSecond pointwise{};             // traffic rate of memory-bound kernels
    Seconds kernel_gap{};                   // launch gap per kernel
    std::vector<BandwidthPoint> nvlink_collective;   // inside a node, ascending size
    // Across nodes, per adapter: what nccl-tests reports for whole nodes, divided by the adapters of a node. Groups that
    // use several adapters of a node get that many times as much (models/rails.h).
    std::vector<BandwidthPoint> network_collective;
    Seconds collective_step{};              // latency of one hop of a ring
    Bytes gemm_workspace{};                 // bound, one per rank
    // Attention workspace bounds: bytes per (head, query) of a call; cuDNN and FlashAttention keep fp32 softmax
    // statistics and, in backward, an fp32 accumulator of head_dim values for dQ.
    double attention_forward_workspace = 0, attention_backward_workspace = 0;
    Interference interference;
    friend bool operator==(const Calibration&, const Calibration&) = default;
};

}  // namespace sluice

// Measured rates of kernels and libraries on one GPU type: what turns work into seconds. Every number in a file carries
// its source. Lookups (models/) interpolate in the logarithm of the size and hold the end values outside the table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace sluice {

// A GEMM's rate, by its size, the geometric mean of its dimensions, or by the three dimensions themselves: one way in all
// points of a table. By dimensions the points form a full grid. GPU libraries follow the size; a CPU's small matrices do not.
struct GemmPoint {
    double size = 0;  // (m n k)^(1/3)
    FlopsPerSecond rate{};
    std::int64_t m = 0, n = 0, k = 0;  // C[m, n] = A[m, k] B[k, n]; all 0: by size
    friend bool operator==(const GemmPoint&, const GemmPoint&) = default;
};

// Attention by queries of the call and keys it attends to; FLOPs are the unmasked ones (models/kernel_cost.h). Where the
// time per score is not all products (a CPU's exponentials), by the width of a head, too.
struct AttentionPoint {
    std::int64_t queries = 0, keys = 0;  // tokens; the points of a table (of one head_dim) form a full grid
    FlopsPerSecond forward{}, backward{};
    std::int64_t head_dim = 0;  // 0: any, in all points of the table
    friend bool operator==(const AttentionPoint&, const AttentionPoint&) = default;
};

// Memory-bound kernels that a calibration may know apart. The last four name one form of kNorm or kActivation;
// calibration_of_model() leaves those of the model's forms, under the general name.
enum class PointwiseKernel : std::uint8_t {
    kNorm, kRope, kActivation, kResidual, kEmbedding, kCrossEntropy, kAccumulate, kAdamw, kOther,
    kLayerNorm, kRmsNorm, kGelu, kSwiglu,
};

// Rate of one of them by the traffic of a call, as schedules count it.
struct PointwisePoint {
    PointwiseKernel kernel = PointwiseKernel::kOther;
    Bytes traffic{};
    BytesPerSecond rate{};
    friend bool operator==(const PointwisePoint&, const PointwisePoint&) = default;
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
    // Of a part of a GPU, whose tables are those beside other parts that compute: what memory-bound kernels gain, 1 or
    // more, while no other part does.
    double memory_alone = 1;
    friend bool operator==(const Interference&, const Interference&) = default;
};

// Forward attention works in tiles of `rows` queries of a head, as many at a time as there are multiprocessors, in
// calls of at most `stretch` queries. The rates of the table are those of `heads` heads; of a shard with few, the last
// round of tiles leaves more multiprocessors idle (models/attention_fill.h). All 0: not known, and not in any time.
struct AttentionTiles {
    std::int64_t rows = 0, stretch = 0;  // tokens
    std::int64_t multiprocessors = 0, heads = 0;
    friend bool operator==(const AttentionTiles&, const AttentionTiles&) = default;
};

// The tables are the rates of a GPU that computes without pause, whose clock the limit of its power holds back. One
// that has paused runs faster: these factors, 1 or more, hold at its full clock (models/power_limit.h).
struct PowerLimit {
    double gemm = 1, attention_forward = 1, attention_backward = 1;
    double busy =
        1;  // share of the time that a GPU may compute and keep its full clock; below 1 where a factor is above
    Seconds window{};  // time constant of the average that the limit holds for; 0: no limit shows, no factor is above 1
    friend bool operator==(const PowerLimit&, const PowerLimit&) = default;
};

struct Calibration {
    std::string name;
    std::vector<GemmPoint> gemm;            // ascending size, or by m, then n, then k
    std::vector<AttentionPoint> attention;  // by head_dim, then queries, then keys
    BytesPerSecond pointwise{};             // traffic rate of memory-bound kernels that the next table does not have
    std::vector<PointwisePoint> pointwise_kernels;  // by kernel, then ascending traffic
    std::vector<PointwiseKernel> fused;     // part of another kernel: no time and no gap of their own
    Seconds kernel_gap{};                   // launch gap per kernel
    std::vector<BandwidthPoint> nvlink_collective;   // inside a node, ascending size
    // Across nodes, per adapter: what nccl-tests reports for whole nodes, divided by the adapters of a node. Groups that
    // use several adapters of a node get that many times as much (models/rails.h).
    std::vector<BandwidthPoint> network_collective;
    Seconds collective_call{};              // latency of a collective whatever its hops: the launch of its kernel
    Seconds collective_step{};              // and of one hop of a ring
    Bytes gemm_workspace{};                 // bound, one per rank
    // Attention workspace bounds: bytes per (head, query) of a call; cuDNN and FlashAttention keep fp32 softmax
    // statistics and, in backward, an fp32 accumulator of head_dim values for dQ.
    double attention_forward_workspace = 0, attention_backward_workspace = 0;
    // And per (head, key) of a backward call whose heads share keys and values: cuDNN makes dK and dV of every head in
    // fp32 first.
    double grouped_backward_workspace = 0;
    AttentionTiles attention_tiles;
    Interference interference;
    PowerLimit power_limit;
    friend bool operator==(const Calibration&, const Calibration&) = default;
};

struct Architecture;

// With rows named after one form of a kernel ("swiglu") only where the model has that form, and then under the general
// name ("activation"), in place of general rows.
Calibration calibration_of_model(Calibration, const Architecture&);

}  // namespace sluice

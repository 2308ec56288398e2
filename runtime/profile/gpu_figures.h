// What was measured on a GPU, as times of shapes: no CUDA in here, so that what is made of it can be tested anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/profile/link_rates.h"
#include "runtime/profile/machine.h"
#include "runtime/profile/measurement.h"
#include "runtime/profile/power_limit_of.h"
#include "scenarios/calibration.h"
#include "scenarios/message_figure.h"
#include "schedule/schedule.h"

namespace sluice {

struct GpuMachine {
    std::string name;                            // "NVIDIA H200"
    std::string driver, runtime, cublas, cudnn;  // versions
    Bytes memory{};                              // that a process sees
    Bytes reserved{};                            // what the context and the libraries hold when all have been used,
                                                 // and an engine's workspaces
    int multiprocessors = 0;
    Machine host;
    Bytes l2{};                    // cache of the whole GPU; 0: not known
    BytesPerSecond memory_peak{};  // of the whole GPU, by clock and bus width; 0: not known
    Bytes reserved_per_token{}, reserved_per_pinned_gib{};  // besides, by runtime/cuda/engine_memory.h
};

// The three products of a linear layer, which schedules do not tell apart: forward Y = X W^T is the shape; the gradient
// of X and the gradient of W, added to in fp32, have the same extents in another order.
struct ProductFigure {
    Gemm shape{};
    Measurement forward, data, weight;
    Seconds mean() const { return (forward.median + data.median + weight.median) / 3; }
    double spread() const { return (forward + data + weight).spread(); }
};

struct AttentionFigure {
    Attention shape{};  // its `pass` says nothing: both are here
    Measurement forward, backward;
    Bytes forward_workspace{}, backward_workspace{};
};

// Calls of one memory-bound kernel, forward and backward where there are both.
struct PointwiseFigure {
    PointwiseKernel kernel = PointwiseKernel::kOther;
    Measurement time;  // of all calls together
    Bytes traffic{};   // of all calls together, as schedules count it (models/layer_kernels.cc)
    int calls = 0;
    BytesPerSecond rate() const { return traffic / time.median; }
};

struct GpuCopyRates {
    Bytes size{};                                     // of a copy
    BytesPerSecond out{}, in{};                       // device to host, host to device: alone
    BytesPerSecond out_beside_in{}, in_beside_out{};  // at the same time
};

struct GpuCopies {
    std::vector<GpuCopyRates> rates;  // by size; the largest counts
    double spread = 0;                // of all of them alone: the worst
    Seconds start{};                  // of a copy, from small ones
    BytesPerSecond pin{};             // host memory pinned per second
};

// Factors, at most 1, on the rate of a large product while the GPU copies.
struct GpuInterference {
    double copy_out = 1, copy_in = 1, both = 1;
};

// Of one part of a GPU that was cut into several: then all figures of kernels are of that part, while the others
// compute.
struct GpuPartFigures {
    int parts = 1;
    int multiprocessors = 0;  // of a part
    double memory_alone = 1;  // rate of the sum of residuals while the others are idle over that beside them
    BytesPerSecond copy{};   // within the GPU's memory, by a stream of the part
    Seconds copy_latency{};  // of one from part to part, with the events that both sides wait for, beyond its bytes
};

// Of several GPUs of one machine that send each other messages.
struct GpuMessages {
    int gpus = 1;
    std::string nccl;                          // version, "2.28.9"
    std::vector<MessageFigure> alone;          // all programs of nccl-tests that MessageKind knows, by size
    std::vector<MessageFigure> beside_copies;  // some of them while every GPU copies to the host
    double product_beside = 1;                 // a product's rate beside all-gathers over that alone
    LinkRates links;                           // of all GPUs at once
    Bytes communicators{};                     // of one GPU's memory
};

struct GpuFigures {
    GpuMachine machine;
    std::vector<ProductFigure> products;
    std::vector<AttentionFigure> attention;  // by queries, then keys; the same keys for all queries but for those below
    std::vector<PointwiseFigure> pointwise;  // by kernel, then ascending traffic
    // Other shapes, which the tables are not made from: what they foretell is compared with.
    std::vector<ProductFigure> other_products;
    std::vector<AttentionFigure> other_attention;
    std::vector<PointwiseFigure> other_pointwise;
    std::int64_t attention_rows = 0, attention_stretch = 0;  // of forward's tiles and calls, as AttentionTiles has them
    GpuCopies copies;
    GpuInterference interference;
    PowerFigures power;
    GpuPartFigures part;
    GpuMessages messages;
    Seconds kernel_gap{};            // what an event between two kernels adds
    std::vector<std::string> notes;  // what could not be measured, and why
};

}  // namespace sluice

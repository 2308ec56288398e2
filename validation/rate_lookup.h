// How a calibration's tables price a kernel, seen from the other side: which points of a table its rate is made of, and
// with which weights. models/ has the same rules for pricing, and a test holds both together; models are not to be seen
// from here.
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"
#include "scenarios/calibration.h"
#include "schedule/schedule.h"

namespace sluice {

struct RateWeight {
    std::size_t point = 0;  // index into the table
    double weight = 0;
};
using RateWeights = std::vector<RateWeight>;  // above 0, summing to 1: the rate is the weighted mean of the points'

// Linear in the logarithm of every dimension, end values held outside. Requires: a table as its reader gives it.
RateWeights rate_weights(const Gemm&, const std::vector<GemmPoint>&);
// A point with fewer keys than queries stands for the first one with as many: files do not have it.
RateWeights rate_weights(const Attention&, const std::vector<AttentionPoint>&);
// Of the rows for its kernel; empty where there are none.
RateWeights rate_weights(const Pointwise&, const std::vector<PointwisePoint>&);
RateWeights rate_weights(Bytes message, const std::vector<BandwidthPoint>&);

PointwiseKernel pointwise_kernel(PointwiseKind);

// What a rate divides to give the time of one call: FLOPs (unmasked pairs only), or bytes of traffic.
double work_of(const KernelShape&);

}  // namespace sluice

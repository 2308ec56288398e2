// Corrects the rates of a table so that it gives what was measured.
#pragma once

#include <span>
#include <vector>

#include "validation/rate_lookup.h"

namespace sluice {

struct RateSample {
    RateWeights at;
    double rate = 0;    // measured, above 0
    double weight = 0;  // how much it counts: its time in the step
};

// Moves every point by the mean, in the logarithm, of what the samples that it is part of are off by, each by its
// weight and once more by the point's part in it, and so on until a round gains nothing: exact where the points can
// follow the samples, else a compromise in relative error. A point that is a small part of its samples hardly moves,
// so noise does not drag it far, and none is moved further than the samples are off by and twice as much again as they
// differ; points that no sample touches stay. (Landweber's iteration on logarithms, stopped early.)
void correct_rates(std::vector<double>& rates, std::span<const RateSample> samples);

// By point: is it part of a sample?
std::vector<bool> touched_points(std::size_t points, std::span<const RateSample> samples);

// What the table gives for a sample.
double rate_at(const std::vector<double>& rates, const RateWeights& at);

}  // namespace sluice

#include "validation/correct_rates.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

constexpr int kMostRounds = 2000;
// A round that brings the mean error down by less ends the search. What is left to gain then is noise: points that are
// a small part of their samples would be moved far for it.
constexpr double kGain = 1e-6;

// What points may be moved by, in the logarithm: what samples are off by, and twice as much again as these differ. Two
// samples that contradict each other would else drag a point beyond them without end.
struct Reach {
    double least = 0, most = 0;
};

Reach reach_of(const std::vector<double>& rates, std::span<const RateSample> samples) {
    Reach off{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (const RateSample& sample : samples) {
        const double by = std::log(sample.rate / rate_at(rates, sample.at));
        off.least = std::min(off.least, by), off.most = std::max(off.most, by);
    }
    const double differ = off.most - off.least;
    return {off.least - 2 * differ, off.most + 2 * differ};
}

}  // namespace

double rate_at(const std::vector<double>& rates, const RateWeights& at) {
    double rate = 0;
    for (const RateWeight& w : at) rate += w.weight * rates[w.point];
    return rate;
}

std::vector<bool> touched_points(std::size_t points, std::span<const RateSample> samples) {
    std::vector<bool> touched(points, false);
    for (const RateSample& sample : samples)
        for (const RateWeight& w : sample.at) touched[w.point] = true;
    return touched;
}

void correct_rates(std::vector<double>& rates, std::span<const RateSample> samples) {
    std::vector<double> correction(rates.size()), weight(rates.size());
    double all = 0, error_before = std::numeric_limits<double>::infinity();
    const std::vector<double> first = rates;
    const Reach reach = reach_of(rates, samples);
    for (const RateSample& sample : samples) all += sample.weight;
    for (int round = 0; round < kMostRounds; ++round) {
        std::fill(correction.begin(), correction.end(), 0);
        std::fill(weight.begin(), weight.end(), 0);
        double squares = 0;
        for (const RateSample& sample : samples) {
            const double off = std::log(sample.rate / rate_at(rates, sample.at));
            squares += sample.weight * off * off / all;
            for (const RateWeight& w : sample.at) {
                correction[w.point] += sample.weight * w.weight * w.weight * off;
                weight[w.point] += sample.weight * w.weight;
            }
        }
        const double error = std::sqrt(squares);
        if (error_before - error < kGain) return;
        error_before = error;
        for (std::size_t i = 0; i < rates.size(); ++i)
            if (weight[i] > 0) {
                const double moved = std::log(rates[i] / first[i]) + correction[i] / weight[i];
                rates[i] = first[i] * std::exp(std::clamp(moved, reach.least, reach.most));
            }
    }
}

}  // namespace sluice

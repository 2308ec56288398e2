#include "validation/correct_rates.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

constexpr int kMostRounds = 2000;
constexpr double kSettled = 1e-9;  // largest change of a logarithm

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
    for (int round = 0; round < kMostRounds; ++round) {
        std::fill(correction.begin(), correction.end(), 0);
        std::fill(weight.begin(), weight.end(), 0);
        for (const RateSample& sample : samples) {
            const double off = std::log(sample.rate / rate_at(rates, sample.at));
            for (const RateWeight& w : sample.at) {
                correction[w.point] += sample.weight * w.weight * off;
                weight[w.point] += sample.weight * w.weight;
            }
        }
        double largest = 0;
        for (std::size_t i = 0; i < rates.size(); ++i) {
            if (weight[i] <= 0) continue;
            const double change = correction[i] / weight[i];
            rates[i] *= std::exp(change);
            largest = std::max(largest, std::abs(change));
        }
        if (largest < kSettled) return;
    }
}

}  // namespace sluice

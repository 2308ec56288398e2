#include "sim/busy_share.h"

#include <algorithm>
#include <cmath>

namespace sluice {

void BusyShare::advance(Seconds now) {
    average_ = share() + (average_ - share()) * std::exp(-((now - last_) / limit_.window));
    last_ = now;
}

double BusyShare::gain(Seconds about) const {
    const double windows = about / limit_.window;
    const double left = windows > 0 ? (1 - std::exp(-windows)) / windows : 1;  // of the difference, on average
    const double mean = share() + (average_ - share()) * left;
    return std::clamp((1 - mean) / (1 - limit_.busy), 0.0, 1.0);
}

}  // namespace sluice

// How far the limit of its power holds a GPU back: an average over the time it has computed.
//
// Measured on an H200 (validation/h200.md, "The limit of power"): clocks follow an average over some ten milliseconds,
// full below a share of busy time and falling from there on. With a(t) the average, exponential with the limit's
// window, of the share of the device that computes, the share of the gain that is to be had is
//     g = (1 - a) / (1 - busy), at least 0 and at most 1
// and work that takes t0 in a GPU that never pauses and t1 at full clock takes t0 - g (t0 - t1), with a its mean over
// t0.
#pragma once

#include "base/units.h"
#include "scenarios/calibration.h"

namespace sluice {

class BusyShare {
public:
    // Of a device in `parts`. It has always been busy before time 0: the step before was like this one.
    BusyShare(const PowerLimit& limit, std::size_t parts) : limit_(limit), parts_(static_cast<double>(parts)) {}

    // A part begins or ends to compute. Calls come in the order of time.
    void begin(Seconds now) { advance(now), ++computing_; }
    void end(Seconds now) { advance(now), --computing_; }

    // g for work that begins now, has been told to begin(), and takes `about` so long.
    double gain(Seconds about) const;

private:
    double share() const { return static_cast<double>(computing_) / parts_; }
    void advance(Seconds now);

    const PowerLimit& limit_;
    double parts_;
    int computing_ = 0;  // parts
    Seconds last_{0};
    double average_ = 1;  // at last_
};

}  // namespace sluice

// The simulated machine: the only file that knows SimGrid. One per process: SimGrid's clock and engine are global.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "sim/topology.h"

namespace sluice {

// Between which places flows will be started.
using Routes = std::set<std::pair<Endpoint, Endpoint>>;

class Platform {
public:
    // `speeds`: the rates at which a GPU can be set to compute, relative to alone and free; never empty.
    // `ended(token)` is called when work started with that token has ended, at that time; it may start more.
    // Requires: no Platform was made in this process before.
    Platform(const Topology& topology, const Routes& routes, const std::vector<double>& speeds,
             std::function<void(std::uint32_t token)> ended);
    ~Platform();
    Platform(const Platform&) = delete;
    Platform& operator=(const Platform&) = delete;

    // Each starts work now, before run() or inside `ended`.
    void start_compute(Rank rank, Seconds alone, std::uint32_t token);              // alone > 0
    void start_flow(Endpoint from, Endpoint to, Bytes bytes, std::uint32_t token);  // bytes > 0, a route of `routes`
    // Calls `then` after a while. Not an activity.
    void after(Seconds delay, std::function<void()> then);

    void set_speed(Rank rank, std::size_t speed);     // index into `speeds`, for the running compute too
    void set_rate(LinkId link, BytesPerSecond rate);  // for flows that start from now on

    // Until nothing runs any more.
    void run();
    Seconds now() const;
    std::uint64_t activities() const;  // computes and flows ended so far

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// "3.32"
std::string simgrid_version();

}  // namespace sluice

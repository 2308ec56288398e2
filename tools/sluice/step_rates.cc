#include "tools/sluice/step_rates.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "models/kernel_cost.h"

namespace sluice {
namespace {

BytesPerSecond copy_rate(const Trace& trace, LaneRole role, Seconds latency) {
    Bytes bytes{};
    Seconds time{}, moving{};
    for (const TraceEvent& e : trace.events) {
        if (trace.lanes[e.lane].role != role) continue;
        bytes += e.bytes;
        time += e.end - e.begin;
        moving += e.end - e.begin - latency;
    }
    if (bytes.value == 0 || time.value <= 0) return {};
    return bytes / std::max(moving, time * 0.1);  // a latency that the calibration has too long is no rate
}

template <class Field>
Field median(std::span<const StepRates> steps, Field StepRates::*field) {
    std::vector<Field> known;
    for (const StepRates& s : steps)
        if (s.*field > Field{}) known.push_back(s.*field);
    if (known.empty()) return {};
    const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
    std::nth_element(known.begin(), middle, known.end());
    return *middle;
}

void slow_down(Calibration& c, double factor) {
    for (GemmPoint& p : c.gemm) p.rate = p.rate / factor;
    for (AttentionPoint& p : c.attention) p.forward = p.forward / factor, p.backward = p.backward / factor;
    for (PointwisePoint& p : c.pointwise_kernels) p.rate = p.rate / factor;
    c.pointwise = c.pointwise / factor;
    c.kernel_gap = c.kernel_gap * factor;
    c.interference.copy_out = c.interference.copy_in = 1;
    c.power_limit = {};
}

}  // namespace

StepRates step_rates(const Scenario& s, const Schedule& schedule, const Trace& measured) {
    StepRates rates;
    rates.out = copy_rate(measured, LaneRole::kCopyOut, s.cluster.pcie.latency);
    rates.in = copy_rate(measured, LaneRole::kCopyIn, s.cluster.pcie.latency);
    Seconds calibrated{}, taken{};
    for (const TraceEvent& e : measured.events)
        if (const auto* work = std::get_if<Compute>(&schedule.ops[index(e.op)].work)) {
            calibrated += compute_time(*work, s.calibration);
            taken += e.end - e.begin;
        }
    if (calibrated.value > 0) rates.compute = taken / calibrated;
    return rates;
}

StepRates median_rates(std::span<const StepRates> steps) {
    return {median(steps, &StepRates::out), median(steps, &StepRates::in), median(steps, &StepRates::compute)};
}

Scenario with_rates(Scenario s, const StepRates& rates) {
    if (rates.compute > 0) slow_down(s.calibration, rates.compute);
    Pcie& pcie = s.cluster.pcie;
    const auto parts = static_cast<double>(s.cluster.gpu.parts);
    const double sharers = std::max(parts, static_cast<double>(pcie.gpus_per_switch));
    if (rates.out.value > 0) pcie.d2h = rates.out * parts, pcie.switch_d2h = rates.out * sharers;
    if (rates.in.value > 0) pcie.h2d = rates.in * parts, pcie.switch_h2d = rates.in * sharers;
    pcie.duplex = std::max(pcie.duplex, pcie.d2h + pcie.h2d);
    HostMemory& host = s.cluster.host;
    host.numa = NumaPlacement::kLocal;
    host.bandwidth = std::max(host.bandwidth, (pcie.d2h + pcie.h2d) * static_cast<double>(s.cluster.gpus_per_node));
    return s;
}

}  // namespace sluice

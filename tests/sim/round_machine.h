// The machine of tests/golden/sim/README.md and its directives.
#pragma once

#include <gtest/gtest.h>

#include <charconv>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/calibration.h"
#include "scenarios/cluster.h"

namespace sluice {

struct RoundMachine {
    Cluster cluster;
    Calibration calibration;
};

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

inline BytesPerSecond gib_per_second(double rate) { return BytesPerSecond{rate * kGiB}; }

inline RoundMachine round_machine() {
    RoundMachine m;
    m.cluster.name = "round";
    m.cluster.gpus_per_node = 8;
    m.cluster.gpu.name = "square";
    m.cluster.pcie = {gib_per_second(8),  gib_per_second(8), gib_per_second(16), Seconds{0}, 2,
                      gib_per_second(16), gib_per_second(16)};
    m.cluster.host.numa_nodes = 2;
    m.cluster.host.bandwidth = gib_per_second(64);
    m.cluster.nvlink.bandwidth = gib_per_second(64);
    m.cluster.network.nics = 4;
    m.cluster.network.bandwidth = gib_per_second(4);
    m.calibration.name = "round";
    m.calibration.gemm = {{1, FlopsPerSecond{kGiB * 1024}}};
    m.calibration.attention = {{1, 1, FlopsPerSecond{kGiB * 1024}, FlopsPerSecond{kGiB * 512}}};
    m.calibration.pointwise = gib_per_second(1);
    return m;
}

// "7/4" or "1.75". Fails the test on anything else.
inline double number(std::string_view text) {
    const auto part = [](std::string_view digits) {
        double value = 0;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        EXPECT_TRUE(error == std::errc{} && end == digits.data() + digits.size()) << "not a number: " << digits;
        return value;
    };
    const std::size_t slash = text.find('/');
    return slash == std::string_view::npos ? part(text) : part(text.substr(0, slash)) / part(text.substr(slash + 1));
}

// Sets what a directive names. False when it names none.
inline bool set(RoundMachine& m, const std::string& key, double value) {
    const auto count = static_cast<std::int64_t>(value);
    const BytesPerSecond rate = gib_per_second(value);
    const Seconds time{value};
    Pcie& pcie = m.cluster.pcie;
    const std::map<std::string, std::function<void()>> settings = {
        {"nodes", [&] { m.cluster.nodes = count; }},
        {"gpus_per_node", [&] { m.cluster.gpus_per_node = count; }},
        {"gpus_per_switch", [&] { pcie.gpus_per_switch = count; }},
        {"numa_nodes", [&] { m.cluster.host.numa_nodes = count; }},
        {"nics", [&] { m.cluster.network.nics = count; }},
        {"d2h", [&] { pcie.d2h = rate; }},
        {"h2d", [&] { pcie.h2d = rate; }},
        {"duplex", [&] { pcie.duplex = rate; }},
        {"switch", [&] { pcie.switch_d2h = pcie.switch_h2d = rate; }},
        {"dram", [&] { m.cluster.host.bandwidth = rate; }},
        {"nvlink", [&] { m.cluster.nvlink.bandwidth = rate; }},
        {"nic", [&] { m.cluster.network.bandwidth = rate; }},
        {"nic_shares_pcie", [&] { m.cluster.network.nic_shares_gpu_pcie = value != 0; }},
        {"bus",
         [&] {
             m.calibration.nvlink_collective = {{1_B, rate}};
         }},
        {"network_bus",
         [&] {
             m.calibration.network_collective = {{1_B, rate}};
         }},
        {"pcie_latency", [&] { pcie.latency = time; }},
        {"nvlink_latency", [&] { m.cluster.nvlink.latency = time; }},
        {"network_latency", [&] { m.cluster.network.latency = time; }},
        {"step_latency", [&] { m.calibration.collective_step = time; }},
        {"slow_copy_out", [&] { m.calibration.interference.copy_out = value; }},
        {"slow_copy_in", [&] { m.calibration.interference.copy_in = value; }},
        {"slow_collective", [&] { m.calibration.interference.collective = value; }},
        {"parts", [&] { m.cluster.gpu.parts = m.cluster.gpus_per_node = count, m.cluster.host.numa_nodes = 1; }},
        {"memory", [&] { m.cluster.gpu.memory_bandwidth = rate; }},
        {"memory_alone", [&] { m.calibration.interference.memory_alone = value; }},
    };
    const auto at = settings.find(key);
    if (at == settings.end()) return false;
    at->second();
    return true;
}

}  // namespace sluice

#include "runtime/profile/link_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace sluice {
namespace {

using Rate = std::optional<BytesPerSecond>;

// In bytes per second; a GPU with itself has 0 in old versions.
std::vector<double> rates_of(const NvbandwidthRun::Matrix& m) {
    std::vector<double> rates;
    for (const std::optional<double>& cell : m.cells)
        if (cell.value_or(0) > 0) rates.push_back(*cell * 1e9);
    return rates;
}

Rate median_of(std::vector<double> rates) {
    if (rates.empty()) return std::nullopt;
    std::sort(rates.begin(), rates.end());
    return BytesPerSecond{rates[(rates.size() - 1) / 2]};
}

Rate sum_of(const std::vector<double>& rates) {
    if (rates.empty()) return std::nullopt;
    double sum = 0;
    for (const double rate : rates) sum += rate;
    return BytesPerSecond{sum};
}

// The tests that say something of a cluster.
struct Use {
    std::string_view test;
    Rate LinkRates::*where;
    bool sum;   // over GPUs that copy at once
    bool host;  // one row: that of the CPU
};
constexpr Use kUses[] = {
    {"device_to_host_memcpy_ce", &LinkRates::out, false, true},
    {"host_to_device_memcpy_ce", &LinkRates::in, false, true},
    {"device_to_host_bidirectional_memcpy_ce", &LinkRates::out_beside_in, false, true},
    {"host_to_device_bidirectional_memcpy_ce", &LinkRates::in_beside_out, false, true},
    {"all_to_host_memcpy_ce", &LinkRates::all_out, true, true},
    {"host_to_all_memcpy_ce", &LinkRates::all_in, true, true},
    {"all_to_host_bidirectional_memcpy_ce", &LinkRates::all_out_beside_in, true, true},
    {"host_to_all_bidirectional_memcpy_ce", &LinkRates::all_in_beside_out, true, true},
    {"device_to_device_memcpy_write_ce", &LinkRates::peer, false, false},
    {"device_to_device_memcpy_read_ce", &LinkRates::peer, false, false},
};
constexpr Rate LinkRates::*kAll[] = {
    &LinkRates::out,     &LinkRates::in,     &LinkRates::out_beside_in,     &LinkRates::in_beside_out,
    &LinkRates::all_out, &LinkRates::all_in, &LinkRates::all_out_beside_in, &LinkRates::all_in_beside_out,
    &LinkRates::peer};

Rate mean_of(const Rate& a, const Rate& b) {
    if (a && b) return (*a + *b) * 0.5;
    return a ? a : b;
}

void set_pcie(Pcie& pcie, const LinkRates& r, std::int64_t of_node) {
    if (r.out) pcie.d2h = *r.out;
    if (r.in) pcie.h2d = *r.in;
    if (r.out_beside_in && r.in_beside_out) pcie.duplex = *r.out_beside_in + *r.in_beside_out;
    pcie.duplex = std::min(pcie.duplex, pcie.d2h + pcie.h2d);
    if (pcie.gpus_per_switch == 1) {
        pcie.switch_d2h = pcie.d2h, pcie.switch_h2d = pcie.h2d;
        return;
    }
    if (static_cast<std::int64_t>(r.gpus) != of_node) return;
    const double share = static_cast<double>(pcie.gpus_per_switch) / static_cast<double>(r.gpus);
    if (r.all_out) pcie.switch_d2h = *r.all_out * share;
    if (r.all_in) pcie.switch_h2d = *r.all_in * share;
}

}  // namespace

LinkRates link_rates(const NvbandwidthRun& run, const std::string& origin) {
    LinkRates rates;
    for (const NvbandwidthRun::Matrix& m : run.matrices) {
        const auto use =
            std::find_if(std::begin(kUses), std::end(kUses), [&](const Use& u) { return u.test == m.test; });
        if (use == std::end(kUses)) continue;
        const std::size_t rows = use->host ? 1 : m.columns;
        if (!m.in_gigabytes_per_second() || m.rows != rows)
            throw InputError(fmt::format("{}: {}: got {} x {} cells of \"{}\", expected {} x {} in (GB/s)", origin,
                                         m.test, m.rows, m.columns, m.caption, rows, m.columns));
        if (rates.gpus != 0 && rates.gpus != m.columns)
            throw InputError(fmt::format("{}: {}: got {} GPUs, expected {}, as in the tests before", origin, m.test,
                                         m.columns, rates.gpus));
        rates.gpus = m.columns;
        const std::vector<double> of_cells = rates_of(m);
        const Rate found = use->sum ? sum_of(of_cells) : median_of(of_cells);
        rates.*use->where = mean_of(rates.*use->where, found);
    }
    return rates;
}

LinkRates merged(const LinkRates& a, const LinkRates& b) {
    LinkRates both;
    both.gpus = std::max(a.gpus, b.gpus);
    for (const auto rate : kAll) both.*rate = mean_of(a.*rate, b.*rate);
    return both;
}

std::vector<std::string> set_links(Cluster& c, const LinkRates& r) {
    std::set<std::string> changed;
    if (r.out || r.in || (r.out_beside_in && r.in_beside_out)) changed.insert("pcie");
    const Pcie before = c.pcie;
    set_pcie(c.pcie, r, c.gpus_per_node);
    if (!(before == c.pcie)) changed.insert("pcie");
    if (r.peer && c.nvlink.bandwidth.value > 0) {
        c.nvlink.bandwidth = *r.peer;
        changed.insert("nvlink");
    }
    if (r.all_out_beside_in && r.all_in_beside_out && static_cast<std::int64_t>(r.gpus) == c.gpus_per_node) {
        c.host.bandwidth = (*r.all_out_beside_in + *r.all_in_beside_out) / static_cast<double>(c.host.numa_nodes);
        changed.insert("host");
    }
    return {changed.begin(), changed.end()};
}

}  // namespace sluice

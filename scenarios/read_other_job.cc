#include "scenarios/read_other_job.h"

#include <fmt/format.h>

#include "base/format_units.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

constexpr std::string_view kKeys[] = {"host_memory", "d2h", "h2d"};

Bytes read_held(const YamlField& field, const HostMemory& host, std::string_view cluster) {
    const Bytes held = read_bytes(field, kReservedLimits);
    if (held >= host.usable())
        fail(field, fmt::format("got {}, expected less than the {} of host memory that cluster {} has for jobs",
                                quote(read_text(field)), format(host.usable()), cluster));
    return held;
}

}  // namespace

OtherJob take_other_job(const YamlField& field, Cluster& cluster) {
    expect_keys(field, kKeys);
    OtherJob job;
    if (const auto held = find(field, "host_memory")) job.host_memory = read_held(*held, cluster.host, cluster.name);
    if (const auto rate = find(field, "d2h")) job.d2h = read_bytes_per_second(*rate);
    if (const auto rate = find(field, "h2d")) job.h2d = read_bytes_per_second(*rate);
    if (job.d2h + job.h2d >= cluster.host.bandwidth)
        fail(field,
             fmt::format("d2h and h2d take {} together, expected less than the DRAM bandwidth of a NUMA node, {}",
                         format(job.d2h + job.h2d), format(cluster.host.bandwidth)));
    cluster.host.reserved += job.host_memory;
    cluster.host.bandwidth -= job.d2h + job.h2d;
    return job;
}

}  // namespace sluice

#include "scenarios/read_run.h"

#include <string_view>

namespace sluice {
namespace {

constexpr std::string_view kKeys[] = {"storage_rate", "checkpoint_interval", "mtbf_per_gpu", "restart", "startup",
                                      "pin_rate"};
constexpr Limits<Seconds> kInterval{Seconds{1}, Seconds{86400.0 * 365}, "1 s ... 365 days"};
constexpr Limits<Seconds> kMtbf{Seconds{3600}, Seconds{1e12}, "1 h ... 1e12 s"};
constexpr Limits<Seconds> kPause{Seconds{0}, Seconds{86400.0 * 365}, "0 s ... 365 days"};

}  // namespace

RunTerms read_run(const YamlField& field) {
    expect_keys(field, kKeys);
    RunTerms run;
    const auto time = [&](std::string_view key, Seconds& target, const Limits<Seconds>& limits) {
        if (const auto given = find(field, key)) target = read_duration(*given, limits);
    };
    const auto rate = [&](std::string_view key, BytesPerSecond& target) {
        if (const auto given = find(field, key)) target = read_bytes_per_second(*given);
    };
    rate("storage_rate", run.storage_rate);
    time("checkpoint_interval", run.checkpoint_interval, kInterval);
    time("mtbf_per_gpu", run.mtbf_per_gpu, kMtbf);
    time("restart", run.restart, kPause);
    time("startup", run.startup, kPause);
    rate("pin_rate", run.pin_rate);
    return run;
}

}  // namespace sluice

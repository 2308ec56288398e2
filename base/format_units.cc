#include "base/format_units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace sluice {
namespace {

// Three significant digits; scales by `base` through `suffixes`.
template <std::size_t N>
std::string scaled(double value, double base, const std::array<std::string_view, N>& suffixes) {
    std::size_t i = 0;
    while (i + 1 < N && std::abs(value) >= base) value /= base, ++i;
    const double magnitude = std::abs(value);
    const int decimals = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f} {}", value, decimals, suffixes[i]);
}

}  // namespace

std::string format(Bytes b) {
    if (std::abs(b.value) < 1024) return fmt::format("{} B", b.value);
    return scaled(static_cast<double>(b.value) / 1024, 1024,
                  std::array<std::string_view, 5>{"KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string format(Seconds t) {
    if (std::abs(t.value) >= 1 || t.value == 0) return scaled(t.value, 1e9, std::array<std::string_view, 1>{"s"});
    return scaled(t.value * 1e9, 1000, std::array<std::string_view, 3>{"ns", "us", "ms"});
}

std::string format(BytesPerSecond r) {
    return scaled(r.value, 1000, std::array<std::string_view, 5>{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"});
}

std::string format(FlopsPerSecond r) {
    return scaled(r.value, 1000,
                  std::array<std::string_view, 6>{"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"});
}

}  // namespace sluice

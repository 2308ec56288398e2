// Bytes per second of every CUDA kernel of our own, each shape again and again. One line of JSON per figure as it is
// measured, then a table.
//
//   cuda_kernel_bench [SECONDS_EACH] [KERNEL]
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <string_view>
#include <vector>

#include "runtime/cuda/gpu_description.h"
#include "runtime/cuda/kernel_rates.h"
#include "runtime/cuda/library_rates.h"

namespace sluice {
namespace {

double gigabytes_per_second(const cuda::KernelRate& r) { return (r.traffic / r.call.each).value / 1e9; }

void print_line(const cuda::KernelRate& r) {
    fmt::print(R"({{"kind": "kernel", "kernel": "{}", "shape": "{}", "bytes": {}, "seconds": {:.4g}, "calls": {}, )"
               R"("gigabytes_per_second": {:.0f}}})"
               "\n",
               r.kernel, r.shape, r.traffic.value, r.call.each.value, r.call.calls, gigabytes_per_second(r));
}

void print_table(const std::vector<cuda::KernelRate>& rates) {
    fmt::print("\n{:<32} {:>16} {:>10} {:>8}\n", "", "", "us", "GB/s");
    for (const cuda::KernelRate& r : rates)
        fmt::print("{:<32} {:>16} {:>10.1f} {:>8.0f}\n", r.kernel, r.shape, 1e6 * r.call.each.value,
                   gigabytes_per_second(r));
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
    using namespace sluice;
    const double each = argc > 1 ? std::atof(argv[1]) : 0.1;
    const std::string_view only = argc > 2 ? argv[2] : "";
    try {
        fmt::print(R"({{"kind": "device", "device": "{}", "seconds_each": {}}})"
                   "\n",
                   cuda::describe_gpu().name, each);
        std::vector<cuda::KernelRate> rates;
        cuda::kernel_rates(Seconds{each}, only, [&](const cuda::KernelRate& r) {
            print_line(r);
            rates.push_back(r);
        });
        print_table(rates);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 3;
    }
    return 0;
}

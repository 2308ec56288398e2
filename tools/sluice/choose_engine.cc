#include "tools/sluice/choose_engine.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "base/format_units.h"
#include "runtime/decoder/cpu_engine.h"
#ifdef SLUICE_HAS_CUDA
#include "runtime/cuda/gpu_description.h"
#include "runtime/cuda/gpu_parts.h"
#include "runtime/cuda/in_process_transport.h"
#include "runtime/cuda_decoder/cuda_engine.h"
#endif

namespace sluice {
namespace {

#ifdef SLUICE_HAS_CUDA
constexpr bool kHasCuda = true;

// A line on the terminal that overwrites itself; nothing in a pipe.
void tell_pinning(Bytes done, Bytes all) {
    if (isatty(STDERR_FILENO) == 0) return;
    fmt::print(stderr, "\rpinning host memory: {} of {}{}", format(done), format(all), done == all ? "\n" : "");
}

EngineMaker cuda_engine_of(const DeviceOptions& options) {
    cuda::CudaOptions of_gpu;
    of_gpu.deterministic = options.deterministic;
    of_gpu.pinning = tell_pinning;
    of_gpu.copy_out_limit = options.cpu.copy_out_limit, of_gpu.copy_in_limit = options.cpu.copy_in_limit;
    if (options.cpu.delay_copies)
        of_gpu.disturbances.delay_copies = {options.cpu.delay_copies->seed, options.cpu.delay_copies->most};
    of_gpu.disturbances.poison_on_release = options.cpu.poison_on_release;
    if (options.parts > 1) {
        of_gpu.device_of_rank = cuda::gpu_parts(static_cast<int>(options.parts));
        of_gpu.transport = cuda::in_process_transport();
    }
    return cuda::cuda_engine(of_gpu);
}

DeviceDescription describe_cuda(std::int64_t parts) {
    if (parts > 1) cuda::raise_stream_connections();  // the first that is asked of CUDA
    const cuda::GpuDescription gpu = cuda::describe_gpu();
    return {"cuda runtime",
            fmt::format("one {}, {}, {} multiprocessors{}; {} host cores", gpu.name, format(gpu.memory),
                        gpu.multiprocessors, parts > 1 ? fmt::format(" in {} parts", parts) : "",
                        sysconf(_SC_NPROCESSORS_ONLN)),
            {{"cuda driver", gpu.driver}, {"cuda runtime", gpu.runtime}, {"cublas", gpu.cublas}, {"cudnn", gpu.cudnn}}};
}
#else
constexpr bool kHasCuda = false;

EngineMaker cuda_engine_of(const DeviceOptions&) { throw InternalError("this build has no CUDA backend"); }
DeviceDescription describe_cuda(std::int64_t) { throw InternalError("this build has no CUDA backend"); }
#endif

}  // namespace

Device parse_device(std::string_view word) {
    if (word == "cpu") return Device::kCpu;
    if (word != "cuda") throw InputError(fmt::format("sluice run: --device: got '{}', expected cpu or cuda", word));
    if (!kHasCuda)
        throw InputError(
            "sluice run: --device: got 'cuda', expected cpu: this build has no CUDA backend (cmake --preset cuda makes "
            "one)");
    return Device::kCuda;
}

void expect_place_for(const DeviceOptions& options, std::int64_t ranks) {
    if (options.device == Device::kCuda && options.parts > 1 && ranks != options.parts)
        throw InputError(
            fmt::format("sluice run: --parts: got {}, expected {}: the scenario has so many ranks, and each runs on a "
                        "part of the GPU",
                        options.parts, ranks));
}

EngineMaker choose_engine(const DeviceOptions& options) {
    return options.device == Device::kCuda ? cuda_engine_of(options) : cpu_engine(options.cpu);
}

DeviceDescription describe_device(const DeviceOptions& options) {
    if (options.device == Device::kCuda) return describe_cuda(options.parts);
    return {"cpu runtime", fmt::format("this machine's CPU, {} logical cores", sysconf(_SC_NPROCESSORS_ONLN)), {}};
}

}  // namespace sluice

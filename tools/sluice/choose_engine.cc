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
#include "runtime/cuda/local_gpus.h"
#include "runtime/cuda/stand_in_transport.h"
#include "runtime/cuda_decoder/cuda_engine.h"
#endif
#ifdef SLUICE_HAS_NCCL
#include "runtime/nccl/nccl_functions.h"
#include "runtime/nccl/nccl_transport.h"
#endif
#include "tools/sluice/run_job.h"

namespace sluice {
namespace {

#ifdef SLUICE_HAS_CUDA
constexpr bool kHasCuda = true;

// A line on the terminal that overwrites itself; nothing in a pipe.
void tell_pinning(Bytes done, Bytes all) {
    if (isatty(STDERR_FILENO) == 0) return;
    fmt::print(stderr, "\rpinning host memory: {} of {}{}", format(done), format(all), done == all ? "\n" : "");
}

// Over several GPUs.
bool spread(const DeviceOptions& options) {
    return options.job != nullptr && (options.gpus > 1 || options.job->processes() > 1);
}

#ifdef SLUICE_HAS_NCCL
cuda::TransportMaker transport_between_gpus(RunJob& job) {
    return cuda::nccl_transport(job.rendezvous(), cuda::nccl_library(), cuda::stream_flags());
}
std::string nccl_version() { return cuda::nccl_version(); }
#else
cuda::TransportMaker transport_between_gpus(RunJob&) {
    throw InputError("sluice run: this build has no NCCL, which several GPUs need (NCCL_ROOT names its folder)");
}
std::string nccl_version() { return ""; }
#endif

EngineMaker cuda_engine_of(const DeviceOptions& options, const Scenario& scenario) {
    if (spread(options) || options.parts > 1) cuda::raise_stream_connections();  // before anything is asked of CUDA
    cuda::CudaOptions of_gpu;
    if (options.stand_ins) of_gpu.transport = cuda::stand_in_transport(*options.stand_ins, scenario.sequence);
    of_gpu.deterministic = options.deterministic;
    of_gpu.pinning = tell_pinning;
    of_gpu.copy_out_limit = options.cpu.copy_out_limit, of_gpu.copy_in_limit = options.cpu.copy_in_limit;
    if (options.cpu.delay_copies)
        of_gpu.disturbances.delay_copies = {options.cpu.delay_copies->seed, options.cpu.delay_copies->most};
    of_gpu.disturbances.poison_on_release = options.cpu.poison_on_release;
    of_gpu.disturbances.fault = options.cpu.fault;
    if (options.parts > 1) {
        of_gpu.device_of_rank = cuda::gpu_parts(static_cast<int>(options.parts));
        of_gpu.transport = cuda::in_process_transport();
    } else if (spread(options)) {
        of_gpu.device_of_rank = cuda::local_gpus(options.job->local_process(), options.job->local());
        of_gpu.transport = transport_between_gpus(*options.job);
    }
    return cuda::cuda_engine(of_gpu);
}

DeviceDescription describe_cuda(const DeviceOptions& options) {
    const cuda::GpuDescription gpu = cuda::describe_gpu();
    const std::int64_t gpus = options.job == nullptr ? 1 : options.gpus * options.job->processes();
    DeviceDescription device = {
        "cuda runtime",
        fmt::format("{} {}, {}, {} multiprocessors{}; {} host cores", gpus == 1 ? "one" : fmt::format("{} x", gpus),
                    gpu.name, format(gpu.memory), gpu.multiprocessors,
                    options.parts > 1 ? fmt::format(" in {} parts", options.parts) : "", sysconf(_SC_NPROCESSORS_ONLN)),
        {{"cuda driver", gpu.driver}, {"cuda runtime", gpu.runtime}, {"cublas", gpu.cublas}, {"cudnn", gpu.cudnn}}};
    if (spread(options)) device.versions.emplace_back("nccl", nccl_version());
    return device;
}
#else
constexpr bool kHasCuda = false;

EngineMaker cuda_engine_of(const DeviceOptions&, const Scenario&) {
    throw InternalError("this build has no CUDA backend");
}
DeviceDescription describe_cuda(const DeviceOptions&) { throw InternalError("this build has no CUDA backend"); }
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

void expect_place_for(const DeviceOptions& options, std::uint32_t processes, std::size_t ranks) {
    if (options.device == Device::kCpu && processes > 1)
        throw InputError(fmt::format(
            "sluice run: got {} processes with --device cpu, expected one: it runs all ranks as threads", processes));
    if (options.device == Device::kCpu) return;
    if (options.parts > 1 && (processes > 1 || options.gpus > 1))
        throw InputError(
            "sluice run: --parts: is for one process and one GPU, expected neither --gpus nor several processes");
    if (options.parts > 1 && ranks != static_cast<std::size_t>(options.parts))
        throw InputError(
            fmt::format("sluice run: --parts: got {}, expected {}: the scenario has so many ranks, and each runs on a "
                        "part of the GPU",
                        options.parts, ranks));
    const auto places = static_cast<std::size_t>(processes) * static_cast<std::size_t>(options.gpus);
    if ((processes > 1 || options.gpus > 1) && places != ranks)
        throw InputError(
            fmt::format("sluice run: got {} processes with {} GPUs each for {} ranks, expected a GPU for every rank "
                        "(--gpus says how "
                        "many each process has)",
                        processes, options.gpus, ranks));
}

EngineMaker choose_engine(const DeviceOptions& options, const Scenario& scenario) {
    return options.device == Device::kCuda ? cuda_engine_of(options, scenario)
                                           : cpu_engine(options.cpu, options.stand_ins);
}

DeviceDescription describe_device(const DeviceOptions& options) {
    if (options.device == Device::kCuda) return describe_cuda(options);
    return {"cpu runtime", fmt::format("this machine's CPU, {} logical cores", sysconf(_SC_NPROCESSORS_ONLN)), {}};
}

}  // namespace sluice

// One of the ranks that an engine runs: its memory on the GPU and beside it, the libraries' plans, and what it brings
// to a step and finds in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/pinned_memory.h"
#include "runtime/cuda/transport.h"
#include "runtime/cuda_decoder/cuda_engine.h"
#include "runtime/cuda_decoder/cuda_rank.h"
#include "runtime/cuda_decoder/device_step_data.h"
#include "runtime/decoder/engine.h"

namespace sluice::cuda {

// Every function makes the rank's device the calling thread's.
class LocalRank {
public:
    // Takes the memory. Refers to `parts`. Throws EnvironmentError when memory is short.
    LocalRank(const EngineParts& parts, Rank rank, std::shared_ptr<const DevicePart> device,
              const CudaOptions& options);

    Rank rank() const { return rank_; }
    const DevicePart& device() const { return *device_; }
    const RankArenas& arenas() const { return arenas_; }
    Bytes device_bytes() const { return Bytes{static_cast<std::int64_t>(device_arena_.bytes().size())}; }
    Bytes host_bytes() const { return Bytes{static_cast<std::int64_t>(host_arena_.bytes().size())}; }

    // Finds what every op of the rank runs and fills both arenas with `word`, the host's only if that is not 0.
    // `bound` is by op of the schedule. The transport may be null where the rank talks to nobody.
    void bind(Transport* transport, bool try_algorithms, std::span<BoundCudaOp> bound);
    // Runs the op with the largest attention of every phase once, on whatever lies in the arena: what the libraries
    // load with their kernels is there before the first step, or memory is short before it. Waits.
    void warm_up(std::span<const BoundCudaOp> bound);
    void clear(std::uint32_t word);

    void read(const ParameterSlice&, ParameterState, std::span<float> values) const;
    void write(const ParameterSlice&, ParameterState, std::span<const float> values);

    void begin_step();               // brings the step's tokens
    void find(StepFindings&) const;  // when it has ended

    // Looks through what an op wrote: waits for it. Throws InternalError naming the op where a value is not finite.
    void expect_finite(const Op& op, Stream stream) const;

private:
    std::span<std::byte> buffer_of(BufferKind kind, std::size_t k) const;
    void write_rounded(const ParameterSlice& slice, std::span<const float> values);
    float* stepped_of(const ParameterSlice& slice, ParameterState state) const;
    void expect_finite(const Op& op, const Buffer& buffer, std::string_view what, std::span<std::byte> bytes,
                       bool is_float, Stream stream) const;

    const EngineParts& parts_;
    const Rank rank_;
    const ParameterLayout& layout_;
    const std::shared_ptr<const DevicePart> device_;
    PinnedMemory host_arena_;
    DeviceMemory device_arena_, scratch_, loss_space_;
    RankArenas arenas_;
    std::optional<DeviceStepData> step_data_;
    OwnedStream stream_;  // between steps
    Gemms gemms_;
    AttentionPlans attention_;
    std::optional<CudaRank> context_;  // of the bound ops
};

}  // namespace sluice::cuda

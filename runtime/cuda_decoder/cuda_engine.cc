#include "runtime/cuda_decoder/cuda_engine.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/format_units.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/disturbance.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda_decoder/bind_op.h"
#include "runtime/cuda_decoder/device_step_data.h"
#include "runtime/decoder/made_tensors.h"
#include "runtime/executor.h"
#include "runtime/resident_memory.h"
#include "schedule/describe.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kTile = 128;  // tokens: what cuDNN's kernels work on
constexpr Bytes kLossSpace = 1_MiB;  // 16 bytes per token of a chunk of the loss
constexpr Bytes kScratch{kScratchFloats * 4};

[[noreturn]] void refuse(const std::string& what) { throw InputError("this schedule cannot be run on a GPU: " + what); }

void expect_runnable(const EngineParts& parts) {
    const Precision& precision = parts.scenario.precision;
    if (precision.weights != DataType::kBf16 || precision.gradients != DataType::kFp32 ||
        precision.kv_gradients != DataType::kFp32)
        refuse(
            "got another precision, expected weights bf16, gradients and kv_gradients fp32 (in the scenario: "
            "precision: {weights: bf16})");
    if (parts.schedule.ranks.size() != 1)
        refuse(fmt::format("got {} ranks, expected 1: one GPU runs one rank", parts.schedule.ranks.size()));
    for (const RunSubsequence& sub : parts.shape.subsequences)
        if (sub.length.value % kTile != 0)
            refuse(
                fmt::format("got a subsequence of {} tokens, expected multiples of {} (in the scenario: partition: "
                            "{{alignment: {}}})",
                            sub.length.value, kTile, kTile));
}

// Refuses before anything is taken.
void expect_device_memory(const EngineParts& parts) {
    const DeviceMemoryState state = device_memory_state();
    const Bytes arena = arena_bytes(parts.schedule, Rank{}, Space::kDevice), fixed = fixed_device_bytes(parts.scenario);
    if (arena + fixed > state.free)
        throw EnvironmentError(
            fmt::format("GPU memory is short: the schedule's arena needs {} and the engine {}, got {} free of {}",
                        format(arena), format(fixed), format(state.free), format(state.total)));
}

class CudaEngine : public Engine {
public:
    CudaEngine(const EngineParts& parts, const CudaOptions& options)
        : parts_(parts),
          layout_(parts.layouts.front()),
          free_before_(device_memory_state().free),
          host_(arena_bytes(parts.schedule, Rank{}, Space::kHost), "host arena of rank 0", options.pinning),
          device_(arena_bytes(parts.schedule, Rank{}, Space::kDevice), "device arena of rank 0"),
          scratch_(kScratch, "scratch of reductions"),
          loss_space_(kLossSpace, "scratch of the loss"),
          attention_(options.deterministic),
          times_(parts.schedule),
          programs_(rank_programs(parts.schedule)) {
        arenas_.emplace_back(parts.schedule, Rank{}, device_.bytes(), host_.bytes());
        step_data_.emplace(parts.scenario, parts.shape,
                           vocabulary_shard(parts.scenario.model.vocabulary, parts.shape.shards, 0));
        findings_.resize(1);
        bind(options.deterministic);
        clear(options.disturbances.poison_on_release ? kDevicePoison : 0);
        start(options.disturbances);
        backend_->limit_copies(LaneKind::kCopyOut, options.copy_out_limit);
        backend_->limit_copies(LaneKind::kCopyIn, options.copy_in_limit);
    }
    ~CudaEngine() override { executor_.reset(); }

    void read(Rank, const ParameterSlice& slice, ParameterState state, std::span<float> values) const override {
        download(reinterpret_cast<const std::byte*>(values_of(slice, state)), std::as_writable_bytes(values));
    }
    void write(Rank, const ParameterSlice& slice, ParameterState state, std::span<const float> values) override {
        float* const at = values_of(slice, state);
        upload(std::as_bytes(values), reinterpret_cast<std::byte*>(at));
        if (state != ParameterState::kWeights) return;
        Bf16* const weights = reinterpret_cast<Bf16*>(buffer_of(BufferKind::kWeights, 0).data()) + slice.offset;
        round_to_bf16(stream_.get(), at, weights, slice.held());
        stream_.wait();
    }

    const std::vector<StepFindings>& run_step() override;
    const StepTimes& times() const override { return times_; }
    Seconds step_time() const override {
        return Seconds{static_cast<double>(executor_->step_end() - executor_->step_begin()) * 1e-9};
    }
    void limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit) override {
        backend_->limit_copies(lane, limit);
    }
    const std::vector<RankArenas>& arenas() const override { return arenas_; }
    MemoryUse memory() const override;

private:
    void bind(bool deterministic);
    void clear(std::uint32_t word);
    void start(const Disturbances& disturbances);
    std::span<std::byte> buffer_of(BufferKind kind, std::size_t k) const;
    float* values_of(const ParameterSlice& slice, ParameterState state) const;
    void expect_finite(const Op& op, Stream stream);
    void expect_finite(const Op& op, const Buffer& buffer, std::string_view what, std::span<std::byte> bytes,
                       bool is_float, Stream stream);

    const EngineParts parts_;
    const ParameterLayout& layout_;
    const Bytes free_before_;
    PinnedMemory host_;
    DeviceMemory device_, scratch_, loss_space_;
    std::vector<RankArenas> arenas_;  // one
    std::optional<DeviceStepData> step_data_;
    OwnedStream stream_;  // between steps
    Gemms gemms_;
    AttentionPlans attention_;
    std::vector<StepFindings> findings_;  // one
    std::optional<CudaRank> rank_;
    std::vector<BoundCudaOp> bound_;  // by op; empty for copies
    StepTimes times_;
    RunMonitor monitor_;
    std::vector<RankProgram> programs_;  // one
    CudaBackend* backend_ = nullptr;     // the one in backends_
    std::vector<std::unique_ptr<Backend>> backends_;
    std::unique_ptr<Executor> executor_;
};

void CudaEngine::bind(bool deterministic) {
    rank_.emplace(CudaRank{{parts_.scenario, parts_.shape, parts_.schedule, arenas_.front(), layout_, Rank{}},
                           gemms_,
                           attention_,
                           {scratch_.as<float>(), kScratchFloats},
                           loss_space_.bytes(),
                           step_data_->tokens(),
                           step_data_->loss_sums(),
                           parts_.inputs,
                           stream_.get(),
                           deterministic ? std::span<std::byte>{} : device_.bytes()});
    for (const Op& op : parts_.schedule.ops)
        bound_.push_back(std::holds_alternative<Compute>(op.work) ? bind_op(*rank_, op) : BoundCudaOp{});
}

void CudaEngine::clear(std::uint32_t word) {
    const auto whole_words = [](std::span<std::byte> bytes) { return bytes.first(bytes.size() / 4 * 4); };
    fill_words(stream_.get(), whole_words(device_.bytes()), word);
    if (word != 0) fill_words(stream_.get(), whole_words(host_.bytes()), word);
    stream_.wait();
}

void CudaEngine::start(const Disturbances& disturbances) {
    monitor_.add_threads(2);  // this one and the rank's
    auto backend = std::make_unique<CudaBackend>(
        parts_.schedule, programs_.front(), arenas_.front(),
        [this](const Op& op, StreamClock& clock) {
            bound_[index(op.id)](clock);
            if (parts_.inputs.check_finite) expect_finite(op, clock.stream());
        },
        times_, disturbances);
    backend_ = backend.get();
    backends_.push_back(std::move(backend));
    executor_ = std::make_unique<Executor>(programs_, backends_, monitor_);
}

const std::vector<StepFindings>& CudaEngine::run_step() {
    step_data_->begin_step(parts_.inputs);
    executor_->run_step();
    times_.begin = executor_->step_begin();
    StepFindings& found = findings_.front();
    found.loss_sum = step_data_->losses();
    double squares = 0;
    for (const Op& op : parts_.schedule.ops)
        if (op.tag.function == Function::kGradientNorm && std::holds_alternative<Compute>(op.work))
            for (const Access& access : op.accesses)
                if (parts_.schedule.buffers[index(access.buffer)].kind == BufferKind::kComm)
                    download(arenas_.front().span_of(access).data(), std::as_writable_bytes(std::span(&squares, 1)));
    found.gradient_norm = std::sqrt(squares);
    found.stepped = std::isfinite(found.gradient_norm);
    return findings_;
}

std::span<std::byte> CudaEngine::buffer_of(BufferKind kind, std::size_t k) const {
    for (const Buffer& buffer : parts_.schedule.buffers)
        if (buffer.kind == kind && buffer.space == Space::kDevice && k-- == 0)
            return arenas_.front().span_of(buffer.id);
    refuse(fmt::format("it has no buffer of kind {}", name(kind)));
}

float* CudaEngine::values_of(const ParameterSlice& slice, ParameterState state) const {
    if (state == ParameterState::kGradients) {
        return reinterpret_cast<float*>(buffer_of(BufferKind::kGrads, slice.part).data()) +
               (slice.offset - layout_.parts[slice.part].offset);
    }
    // Master weights, then the first moments, then the second.
    const std::int64_t part = state == ParameterState::kWeights ? 0 : state == ParameterState::kFirstMoment ? 1 : 2;
    return reinterpret_cast<float*>(buffer_of(BufferKind::kOptimizer, 0).data()) + part * layout_.elements +
           slice.offset;
}

// Waits for the op: only the step that looks for what was not finite comes here.
void CudaEngine::expect_finite(const Op& op, Stream stream) {
    for (const Access& access : op.accesses) {
        const Buffer& buffer = parts_.schedule.buffers[index(access.buffer)];
        if (access.mode == AccessMode::kRead || buffer.kind == BufferKind::kWorkspace ||
            buffer.kind == BufferKind::kOptimizer || buffer.kind == BufferKind::kWeights ||
            buffer.kind == BufferKind::kComm)
            continue;
        const std::span<std::byte> bytes = arenas_.front().span_of(access);
        if (buffer.tensors.empty()) {
            const bool is_float = buffer.kind == BufferKind::kGrads || buffer.kind == BufferKind::kDkv;
            expect_finite(op, buffer, "", bytes, is_float, stream);
            continue;
        }
        std::size_t begin = 0;
        for (const SavedTensor& saved : buffer.tensors) {
            const auto count = static_cast<std::size_t>(saved.bytes.value);
            const bool is_float = saved.tensor == Tensor::kNorm1Statistics ||
                                  saved.tensor == Tensor::kNorm2Statistics || saved.tensor == Tensor::kLogSumExp;
            if (makes(op.tag.function, saved.tensor))
                expect_finite(op, buffer, name(saved.tensor), bytes.subspan(begin, count), is_float, stream);
            begin += count;
        }
    }
}

void CudaEngine::expect_finite(const Op& op, const Buffer& buffer, std::string_view what, std::span<std::byte> bytes,
                               bool is_float, Stream stream) {
    auto* const count = reinterpret_cast<unsigned long long*>(loss_space_.bytes().data());
    check(cudaMemsetAsync(count, 0, sizeof *count, stream), "clear a count");
    if (is_float)
        count_non_finite(stream, reinterpret_cast<const float*>(bytes.data()),
                         static_cast<std::int64_t>(bytes.size() / sizeof(float)), count);
    else
        count_non_finite(stream, reinterpret_cast<const Bf16*>(bytes.data()),
                         static_cast<std::int64_t>(bytes.size() / sizeof(Bf16)), count);
    check(cudaStreamSynchronize(stream), "the op that is looked at");
    unsigned long long found = 0;
    download(reinterpret_cast<const std::byte*>(count), std::as_writable_bytes(std::span(&found, 1)));
    if (found == 0) return;
    throw InternalError(fmt::format(
        "step {}: the first values that are not finite are made by {}, {} {} of layer {}, subsequence {}: {} of {} {}",
        parts_.inputs.optimizer.step, describe(op), name(op.tag.phase), name(op.tag.function), op.tag.layer,
        op.tag.subsequence, found, describe(buffer), what));
}

MemoryUse CudaEngine::memory() const {
    MemoryUse use;
    use.device = Bytes{static_cast<std::int64_t>(device_.bytes().size())};
    use.host = Bytes{static_cast<std::int64_t>(host_.bytes().size())};
    use.process = resident_memory();
    use.beyond = use.process - use.host;
    const DeviceMemoryState state = device_memory_state();
    use.device_beyond = state.total - state.free - use.device;
    return use;
}

}  // namespace

Bytes fixed_device_bytes(const Scenario& scenario) {
    return Bytes{Gemms::kWorkspaceBytes} + kScratch + kLossSpace + DeviceStepData::bytes(scenario);
}

EngineMaker cuda_engine(const CudaOptions& options) {
    return [options](const EngineParts& parts) -> std::unique_ptr<Engine> {
        expect_runnable(parts);
        expect_device_memory(parts);
        return std::make_unique<CudaEngine>(parts, options);
    };
}

}  // namespace sluice::cuda

#include "runtime/cuda_decoder/local_rank.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/disturbance.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/engine_memory.h"
#include "runtime/cuda/stream_events.h"
#include "runtime/cuda/vocabulary_loss.h"
#include "runtime/cuda_decoder/bind_op.h"
#include "runtime/decoder/made_tensors.h"
#include "schedule/describe.h"

namespace sluice::cuda {
namespace {

std::vector<RunSubsequence> embedded_tokens(const RunShape& shape, Rank rank) {
    std::vector<RunSubsequence> embedded = shape.subsequences;
    if (shape.shards == shape.weight_shards) return embedded;
    for (RunSubsequence& sub : embedded) {
        sub.length = sub.length / shape.shards;
        sub.begin += sub.length * shape.ranks[index(rank)].shard;
    }
    return embedded;
}

// For the members that follow it in the constructor: all of them are of this device.
std::shared_ptr<const DevicePart> made_current(std::shared_ptr<const DevicePart> device) {
    device->make_current();
    return device;
}

std::string arena_name(const char* space, Rank rank) { return fmt::format("{} arena of rank {}", space, index(rank)); }

}  // namespace

Bytes fixed_device_bytes(const Scenario& scenario) {
    return workspace_bytes(scenario.weight_shards()) + DeviceStepData::bytes(scenario);
}

LocalRank::LocalRank(const EngineParts& parts, Rank rank, std::shared_ptr<const DevicePart> device,
                     const CudaOptions& options)
    : parts_(parts),
      rank_(rank),
      layout_(parts.layouts[index(rank)]),
      device_(made_current(std::move(device))),
      host_arena_(arena_bytes(parts.schedule, rank, Space::kHost), arena_name("host", rank), options.pinning),
      device_arena_(arena_bytes(parts.schedule, rank, Space::kDevice), arena_name("device", rank)),
      scratch_(kScratchBytes, "scratch of reductions"),
      loss_space_(loss_space_bytes(parts.scenario.weight_shards()), "scratch of the loss"),
      arenas_(parts.schedule, rank, device_arena_.bytes(), host_arena_.bytes()),
      stream_(device_->new_stream()),
      gemms_(device_->multiprocessors()),
      attention_(options.deterministic) {}

void LocalRank::bind(Transport* transport, bool try_algorithms, std::span<BoundCudaOp> bound) {
    device_->make_current();
    const RankSizes sizes{parts_.scenario, parts_.shape, parts_.schedule, arenas_, layout_, rank_};
    step_data_.emplace(parts_.scenario, embedded_tokens(parts_.shape, rank_), sizes.vocabulary());
    context_.emplace(CudaRank{sizes,
                              gemms_,
                              attention_,
                              {scratch_.as<float>(), kScratchFloats},
                              loss_space_.bytes(),
                              step_data_->tokens(),
                              step_data_->loss_sums(),
                              parts_.inputs,
                              transport,
                              stream_.get(),
                              try_algorithms ? device_arena_.bytes() : std::span<std::byte>{}});
    for (const Op& op : parts_.schedule.ops)
        if (op.rank == rank_) bound[index(op.id)] = bind_op(*context_, op);
}

namespace {

// Queries times keys of the op's attention; 0: it has none.
double attention_size(const Op& op) {
    const auto* const compute = std::get_if<Compute>(&op.work);
    if (compute == nullptr) return 0;
    double size = 0;
    for (const Kernel& kernel : compute->kernels)
        if (const auto* const a = std::get_if<Attention>(&kernel.shape))
            size = std::max(size, static_cast<double>(a->queries) * static_cast<double>(a->keys));
    return size;
}

}  // namespace

void LocalRank::warm_up(std::span<const BoundCudaOp> bound) {
    device_->make_current();
    std::map<Phase, const Op*> largest;
    for (const Op& op : parts_.schedule.ops) {
        if (op.rank != rank_ || attention_size(op) == 0) continue;
        const Op*& of_phase = largest[op.tag.phase];
        if (of_phase == nullptr || attention_size(op) > attention_size(*of_phase)) of_phase = &op;
    }
    const Events none(0);
    for (const auto& [phase, op] : largest) {
        StreamClock clock(stream_.get(), none, 0, 0);
        bound[index(op->id)](clock);
    }
    stream_.wait();
}

void LocalRank::clear(std::uint32_t word) {
    device_->make_current();
    const auto whole_words = [](std::span<std::byte> bytes) { return bytes.first(bytes.size() / 4 * 4); };
    fill_words(stream_.get(), whole_words(device_arena_.bytes()), word);
    if (word != 0) fill_words(stream_.get(), whole_words(host_arena_.bytes()), word);
    stream_.wait();
}

void LocalRank::read(const ParameterSlice& slice, ParameterState state, std::span<float> values) const {
    device_->make_current();
    download(reinterpret_cast<const std::byte*>(stepped_of(slice, state)), std::as_writable_bytes(values));
}

void LocalRank::write(const ParameterSlice& slice, ParameterState state, std::span<const float> values) {
    device_->make_current();
    const std::span<const float> stepped =
        values.subspan(static_cast<std::size_t>(slice.first_stepped), static_cast<std::size_t>(slice.stepped));
    if (!stepped.empty()) upload(std::as_bytes(stepped), reinterpret_cast<std::byte*>(stepped_of(slice, state)));
    if (state == ParameterState::kWeights) write_rounded(slice, values);
}

// What kernels read: all that the rank holds, whoever steps it. Host and device both round to nearest even.
void LocalRank::write_rounded(const ParameterSlice& slice, std::span<const float> values) {
    Bf16* const weights = reinterpret_cast<Bf16*>(buffer_of(BufferKind::kWeights, 0).data()) + slice.offset;
    if (slice.stepped == slice.held()) {  // from the masters
        round_to_bf16(stream_.get(), stepped_of(slice, ParameterState::kWeights), weights, slice.held());
        return stream_.wait();
    }
    std::vector<Bf16> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(), to_bf16);
    upload(std::as_bytes(std::span(rounded)), reinterpret_cast<std::byte*>(weights));
}

void LocalRank::begin_step() {
    device_->make_current();
    step_data_->begin_step(parts_.inputs);
}

void LocalRank::find(StepFindings& found) const {
    device_->make_current();
    found.loss_sum = step_data_->losses();
    double squares = 0;
    for (const Op& op : parts_.schedule.ops)
        if (op.rank == rank_ && op.tag.function == Function::kGradientNorm && std::holds_alternative<Compute>(op.work))
            for (const Access& access : op.accesses)
                if (parts_.schedule.buffers[index(access.buffer)].kind == BufferKind::kComm)
                    download(arenas_.span_of(access).data(), std::as_writable_bytes(std::span(&squares, 1)));
    found.gradient_norm = std::sqrt(squares);
    found.stepped = std::isfinite(found.gradient_norm);
}

std::span<std::byte> LocalRank::buffer_of(BufferKind kind, std::size_t k) const {
    for (const Buffer& buffer : parts_.schedule.buffers)
        if (buffer.rank == rank_ && buffer.kind == kind && buffer.space == Space::kDevice && k-- == 0)
            return arenas_.span_of(buffer.id);
    throw InputError(fmt::format("this schedule cannot be run on a GPU: rank {} has no buffer of kind {}", index(rank_),
                                 name(kind)));
}

float* LocalRank::stepped_of(const ParameterSlice& slice, ParameterState state) const {
    if (state == ParameterState::kGradients) {
        return reinterpret_cast<float*>(buffer_of(BufferKind::kGrads, slice.part).data()) +
               (slice.offset + slice.first_stepped - layout_.parts[slice.part].offset);
    }
    // Master weights, then the first moments, then the second.
    const std::int64_t part = state == ParameterState::kWeights ? 0 : state == ParameterState::kFirstMoment ? 1 : 2;
    return reinterpret_cast<float*>(buffer_of(BufferKind::kOptimizer, 0).data()) + part * layout_.state_elements +
           slice.state;
}

// Only the step that looks for what was not finite comes here.
void LocalRank::expect_finite(const Op& op, Stream stream) const {
    for (const Access& access : op.accesses) {
        const Buffer& buffer = parts_.schedule.buffers[index(access.buffer)];
        if (access.mode == AccessMode::kRead || buffer.kind == BufferKind::kWorkspace ||
            buffer.kind == BufferKind::kOptimizer || buffer.kind == BufferKind::kWeights ||
            buffer.kind == BufferKind::kComm)
            continue;
        Access made = access;
        if (buffer.kind == BufferKind::kDkv) {
            // The own keys' sums are complete with this op: they are rounded into the workspace, nothing reads these.
            if (made.first_block == made.last_block) continue;
            --made.last_block;
        }
        const std::span<std::byte> bytes = arenas_.span_of(made);
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

void LocalRank::expect_finite(const Op& op, const Buffer& buffer, std::string_view what, std::span<std::byte> bytes,
                              bool is_float, Stream stream) const {
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

}  // namespace sluice::cuda

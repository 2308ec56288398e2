#include "runtime/cuda_decoder/cuda_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/format_units.h"
#include "runtime/cuda/disturbance.h"
#include "runtime/cuda_decoder/local_rank.h"
#include "runtime/executor.h"
#include "runtime/issue_order.h"
#include "runtime/resident_memory.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kTile = 128;  // tokens: what cuDNN's kernels work on

[[noreturn]] void refuse(const std::string& what) { throw InputError("this schedule cannot be run on a GPU: " + what); }

bool talks(const Schedule& schedule, Rank rank) {
    return std::any_of(schedule.ops.begin(), schedule.ops.end(), [&](const Op& op) {
        return op.rank == rank && !std::holds_alternative<Compute>(op.work) && !std::holds_alternative<Copy>(op.work);
    });
}

void expect_runnable(const EngineParts& parts, const CudaOptions& options) {
    const Precision& precision = parts.scenario.precision;
    if (precision.weights != DataType::kBf16 || precision.gradients != DataType::kFp32 ||
        precision.kv_gradients != DataType::kFp32)
        refuse(
            "got another precision, expected weights bf16, gradients and kv_gradients fp32 (in the scenario: "
            "precision: {weights: bf16})");
    if (!options.transport && talks(parts.schedule, parts.local.front()))
        refuse(
            fmt::format("got {} ranks, expected 1: one GPU runs one rank, unless sluice run is told to cut it "
                        "(--parts) or to use several (--gpus)",
                        parts.schedule.ranks.size()));
    for (const RunSubsequence& sub : parts.shape.subsequences)
        if (sub.length.value % kTile != 0)
            refuse(
                fmt::format("got a subsequence of {} tokens, expected multiples of {} (in the scenario: partition: "
                            "{{alignment: {}}})",
                            sub.length.value, kTile, kTile));
}

using DeviceParts = std::vector<std::shared_ptr<const DevicePart>>;  // of the local ranks

DeviceParts device_parts(const EngineParts& parts, const DevicePartMaker& make) {
    DeviceParts devices;
    for (const Rank rank : parts.local) devices.push_back(make ? make(rank) : std::make_shared<const WholeDevice>());
    return devices;
}

// Refuses before anything is taken.
void expect_device_memory(const EngineParts& parts, const DeviceParts& devices) {
    std::map<int, Bytes> arenas, fixed;  // by GPU
    for (std::size_t k = 0; k < devices.size(); ++k) {
        arenas[devices[k]->device()] += arena_bytes(parts.schedule, parts.local[k], Space::kDevice);
        fixed[devices[k]->device()] += fixed_device_bytes(parts.scenario);
    }
    for (const auto& device : devices) {
        device->make_current();
        const DeviceMemoryState state = device_memory_state();
        const Bytes arena = arenas[device->device()], beside = fixed[device->device()];
        if (arena + beside > state.free)
            throw EnvironmentError(
                fmt::format("GPU memory is short: the schedule's arena needs {} and the engine {}, got {} free of {}",
                            format(arena), format(beside), format(state.free), format(state.total)));
    }
}

class CudaEngine : public Engine {
public:
    CudaEngine(const EngineParts& parts, const CudaOptions& options, DeviceParts devices)
        : parts_(parts), times_(parts.schedule), programs_(rank_programs(parts.schedule, parts.local)) {
        expect_issuable(parts.schedule, programs_);
        for (std::size_t k = 0; k < devices.size(); ++k) add_rank(parts.local[k], std::move(devices[k]), options);
        make_transports(options);
        bind(options);
        start(options.disturbances);
        limit_copies(LaneKind::kCopyOut, options.copy_out_limit);
        limit_copies(LaneKind::kCopyIn, options.copy_in_limit);
    }
    ~CudaEngine() override { executor_.reset(); }

    void read(Rank rank, const ParameterSlice& slice, ParameterState state, std::span<float> values) const override {
        ranks_[position_of(rank)]->read(slice, state, values);
    }
    void write(Rank rank, const ParameterSlice& slice, ParameterState state, std::span<const float> values) override {
        ranks_[position_of(rank)]->write(slice, state, values);
    }

    const std::vector<StepFindings>& run_step() override;
    const StepTimes& times() const override { return times_; }
    Seconds step_time() const override {
        return Seconds{static_cast<double>(executor_->step_end() - executor_->step_begin()) * 1e-9};
    }
    void limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit) override {
        for (CudaBackend* const backend : lanes_) backend->limit_copies(lane, limit);
    }
    const RankArenas& arenas(Rank rank) const override { return ranks_[position_of(rank)]->arenas(); }
    MemoryUse memory() const override;
    bool in_step() const override { return in_step_; }
    std::optional<RunFailure> failure() const override { return in_step_ ? monitor_.failure() : std::nullopt; }
    void stop(FailureKind kind, const std::string& message) override { monitor_.fail(kind, message); }
    std::uint64_t ended_ops() override;
    std::string in_flight() override;

private:
    void add_rank(Rank rank, std::shared_ptr<const DevicePart> device, const CudaOptions& options);
    void make_transports(const CudaOptions& options);
    void bind(const CudaOptions& options);
    void start(const Disturbances& disturbances);
    Transport* transport_of(std::size_t position) const {
        return transports_.empty() ? nullptr : transports_[position].get();
    }
    std::size_t position_of(Rank rank) const {
        return static_cast<std::size_t>(std::lower_bound(parts_.local.begin(), parts_.local.end(), rank) -
                                        parts_.local.begin());
    }

    const EngineParts parts_;
    RunMonitor monitor_;
    std::vector<std::unique_ptr<LocalRank>> ranks_;  // the local ones, as all that follow
    std::vector<Group> groups_;
    std::vector<std::unique_ptr<Transport>> transports_;  // empty where nobody talks
    std::vector<StepFindings> findings_;
    std::vector<BoundCudaOp> bound_;  // by op; empty for copies
    StepTimes times_;
    std::vector<RankProgram> programs_;
    std::vector<CudaBackend*> lanes_;  // those in backends_
    std::vector<std::unique_ptr<Backend>> backends_;
    std::unique_ptr<Executor> executor_;
    std::atomic<bool> in_step_{false};
};

void CudaEngine::add_rank(Rank rank, std::shared_ptr<const DevicePart> device, const CudaOptions& options) {
    ranks_.push_back(std::make_unique<LocalRank>(parts_, rank, std::move(device), options));
    findings_.emplace_back();
}

void CudaEngine::make_transports(const CudaOptions& options) {
    if (!options.transport) return;
    groups_ = transport_groups(parts_.schedule, parts_.shape.shards, parts_.shape.weight_shards);
    std::vector<const DevicePart*> devices;
    for (const auto& rank : ranks_) devices.push_back(&rank->device());
    transports_ = options.transport({parts_.schedule, groups_, parts_.local, devices, monitor_});
    SLUICE_CHECK(transports_.size() == ranks_.size(), "one transport per local rank");
}

void CudaEngine::bind(const CudaOptions& options) {
    bound_.resize(parts_.schedule.ops.size());
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
        ranks_[k]->bind(transport_of(k), !options.deterministic, bound_);
        ranks_[k]->warm_up(bound_);
        ranks_[k]->clear(options.disturbances.poison_on_release ? kDevicePoison : 0);
    }
}

void CudaEngine::start(const Disturbances& disturbances) {
    monitor_.add_threads(1 + ranks_.size());  // this one and the ranks'
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
        LocalRank& rank = *ranks_[k];
        rank.device().make_current();
        Transport* const transport = transport_of(k);
        auto backend = std::make_unique<CudaBackend>(
            parts_.schedule, programs_[k], rank.arenas(), rank.device(),
            [this, &rank](const Op& op, StreamClock& clock) {
                bound_[index(op.id)](clock);
                if (parts_.inputs.check_finite) rank.expect_finite(op, clock.stream());
            },
            times_, disturbances,
            transport == nullptr ? std::function<void()>{} : [transport] { transport->begin_step(); });
        lanes_.push_back(backend.get());
        backends_.push_back(std::move(backend));
    }
    executor_ = std::make_unique<Executor>(programs_, backends_, monitor_);
}

const std::vector<StepFindings>& CudaEngine::run_step() {
    for (const auto& rank : ranks_) rank->begin_step();
    in_step_ = true;
    executor_->run_step();
    in_step_ = false;
    times_.begin = executor_->step_begin();
    for (std::size_t k = 0; k < ranks_.size(); ++k) ranks_[k]->find(findings_[k]);
    return findings_;
}

std::uint64_t CudaEngine::ended_ops() {
    std::uint64_t ended = 0;
    for (CudaBackend* const backend : lanes_) ended += backend->ended_ops();
    return ended;
}

std::string CudaEngine::in_flight() {
    std::string text;
    if (!in_step_) return text;
    for (CudaBackend* const backend : lanes_) {
        const std::string of_rank = backend->in_flight();
        if (!of_rank.empty()) text += (text.empty() ? "" : "; ") + of_rank;
    }
    return text;
}

MemoryUse CudaEngine::memory() const {
    MemoryUse use;
    std::set<int> asked;  // GPUs
    for (const auto& rank : ranks_) {
        use.device += rank->device_bytes();
        use.host += rank->host_bytes();
        if (!asked.insert(rank->device().device()).second) continue;
        rank->device().make_current();
        const DeviceMemoryState state = device_memory_state();
        use.device_beyond += state.total - state.free;
    }
    use.device_beyond -= use.device;
    use.process = resident_memory();
    use.beyond = use.process - use.host;
    return use;
}

}  // namespace

EngineMaker cuda_engine(const CudaOptions& options) {
    return [options](const EngineParts& parts) -> std::unique_ptr<Engine> {
        expect_runnable(parts, options);
        DeviceParts devices = device_parts(parts, options.device_of_rank);
        expect_device_memory(parts, devices);
        return std::make_unique<CudaEngine>(parts, options, std::move(devices));
    };
}

}  // namespace sluice::cuda

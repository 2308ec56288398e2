#include "runtime/decoder/cpu_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "base/error.h"
#include "runtime/cpu/first_non_finite.h"
#include "runtime/decoder/bind_op.h"
#include "runtime/decoder/made_tensors.h"
#include "runtime/resident_memory.h"
#include "schedule/describe.h"

namespace sluice {
namespace {

// Where a slice's elements are in a buffer of the rank; moments of what the rank steps of it.
struct SliceView {
    std::int64_t offset = 0;
    std::span<float> weights, gradients, first_moment, second_moment;
};

// The rank's buffers of a kind, in the order of the schedule.
std::vector<std::span<float>> buffers_of(const Schedule& schedule, const RankArenas& arenas, BufferKind kind) {
    std::vector<std::span<float>> found;
    for (const Buffer& buffer : schedule.buffers)
        if (buffer.rank == arenas.rank() && buffer.kind == kind && buffer.space == Space::kDevice)
            found.push_back(as_floats(arenas.span_of(buffer.id)));
    return found;
}

std::span<float> expect_one(const std::vector<std::span<float>>& found, std::int64_t count, const char* what) {
    if (found.size() == 1 && static_cast<std::int64_t>(found[0].size()) == count) return found[0];
    throw InputError(fmt::format("this schedule cannot be run: got {} values of {} on a rank, expected {}",
                                 found.empty() ? 0 : found[0].size(), what, count));
}

std::vector<SliceView> slice_views(const Schedule& schedule, const RankArenas& arenas, const ParameterLayout& layout) {
    const std::span<float> weights =
        expect_one(buffers_of(schedule, arenas, BufferKind::kWeights), layout.elements, "weights");
    const std::span<float> moments =
        expect_one(buffers_of(schedule, arenas, BufferKind::kOptimizer), 2 * layout.state_elements, "optimizer state");
    const std::vector<std::span<float>> gradients = buffers_of(schedule, arenas, BufferKind::kGrads);
    if (gradients.size() != layout.parts.size())
        throw InputError(
            fmt::format("this schedule cannot be run: got gradients of {} parts of a rank's parameters, "
                        "expected {}",
                        gradients.size(), layout.parts.size()));
    for (std::size_t p = 0; p < gradients.size(); ++p)
        expect_one({gradients[p]}, layout.parts[p].elements, "gradients of a part");
    std::vector<SliceView> views;
    for (const ParameterSlice& slice : layout.slices) {
        const auto at = static_cast<std::size_t>(slice.offset), count = static_cast<std::size_t>(slice.held());
        const auto in_part = static_cast<std::size_t>(slice.offset - layout.parts[slice.part].offset);
        const auto state = static_cast<std::size_t>(slice.state), stepped = static_cast<std::size_t>(slice.stepped);
        views.push_back({slice.offset, weights.subspan(at, count), gradients[slice.part].subspan(in_part, count),
                         moments.subspan(state, stepped),
                         moments.subspan(static_cast<std::size_t>(layout.state_elements) + state, stepped)});
    }
    return views;
}

// Of all values of a slice, or of those that the rank steps, the latter.
template <class T>
std::span<T> stepped_of(const ParameterSlice& slice, std::span<T> values) {
    const auto stepped = static_cast<std::size_t>(slice.stepped);
    return values.size() == stepped ? values : values.subspan(static_cast<std::size_t>(slice.first_stepped), stepped);
}

std::vector<float> rotary_table(const Scenario& s) {
    if (s.model.positions != Positions::kRope) return {};
    const RotaryShape shape{s.model.head_dim, s.model.head_dim, s.model.rope_theta};
    std::vector<float> table(static_cast<std::size_t>(rotary_table_bytes(shape, s.sequence).value) / sizeof(float));
    fill_rotary_table(shape, Tokens{}, s.sequence, table);
    return table;
}

class CpuEngine : public Engine {
public:
    CpuEngine(const EngineParts& parts, const CpuOptions& options, const std::optional<StandIns>& stand_ins)
        : parts_(parts),
          stand_ins_(stand_ins),
          arenas_(map_arenas(parts.schedule, parts.local)),
          rotary_(rotary_table(parts.scenario)),
          communicators_(parts.schedule, monitor_) {
        const Precision& precision = parts.scenario.precision;
        if (precision.weights != DataType::kFp32 || precision.kv_gradients != DataType::kFp32 ||
            precision.gradients != DataType::kFp32)
            throw InputError(
                "this schedule cannot be run on the CPU: got bf16, expected precision fp32 throughout (in the "
                "scenario: precision: {weights: fp32})");
        if (!stand_ins && parts.local.size() != parts.schedule.ranks.size())
            throw InputError(fmt::format(
                "this schedule cannot be run on the CPU: got {} of its {} ranks, expected all of them in one process",
                parts.local.size(), parts.schedule.ranks.size()));
        position_.resize(parts.schedule.ranks.size());
        for (std::size_t k = 0; k < parts.local.size(); ++k) position_[index(parts.local[k])] = k;
        add_loss_groups();
        add_contexts();
        bound_.resize(parts.schedule.ops.size());
        for (const Op& op : parts.schedule.ops)
            if (is_local(op.rank)) bound_[index(op.id)] = bind_op(contexts_[position(op.rank)], op);
        run_.emplace(
            parts.schedule, arenas_, monitor_,
            [this](const Op& op, KernelClock& clock) {
                bound_[index(op.id)](clock);
                if (parts_.inputs.check_finite) expect_finite(op);
            },
            options);
    }

    void read(Rank rank, const ParameterSlice& slice, ParameterState state, std::span<float> values) const override {
        const std::span<const float> stepped = stepped_of(slice, values_of(rank, slice, state));
        std::copy(stepped.begin(), stepped.end(), values.begin());
    }
    void write(Rank rank, const ParameterSlice& slice, ParameterState state, std::span<const float> values) override {
        const std::span<float> own = values_of(rank, slice, state);
        if (own.size() < values.size()) values = stepped_of(slice, values);
        std::copy(values.begin(), values.end(), own.begin());
    }

    const std::vector<StepFindings>& run_step() override {
        for (StepFindings& f : findings_) std::fill(f.loss_sum.begin(), f.loss_sum.end(), 0.0);
        step_begin_ = steady_now();
        in_step_ = true;
        run_->run_step();
        in_step_ = false;
        return findings_;
    }
    const StepTimes& times() const override { return run_->times(); }
    Seconds step_time() const override { return run_->step_time(); }
    void limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit) override { run_->limit_copies(lane, limit); }
    const RankArenas& arenas(Rank rank) const override { return arenas_[position(rank)]; }
    MemoryUse memory() const override;
    bool in_step() const override { return in_step_; }
    std::optional<RunFailure> failure() const override { return in_step_ ? monitor_.failure() : std::nullopt; }
    void stop(FailureKind kind, const std::string& message) override { monitor_.fail(kind, message); }
    std::uint64_t ended_ops() override { return run_->ended_ops(); }
    std::string in_flight() override { return in_step_ ? run_->in_flight() : std::string(); }

private:
    void add_loss_groups();
    void add_contexts();
    std::size_t position(Rank rank) const { return position_[index(rank)]; }
    bool is_local(Rank rank) const { return parts_.local[position(rank)] == rank; }
    std::span<float> values_of(Rank rank, const ParameterSlice& slice, ParameterState state) const;
    // What the op wrote. Scratch is not looked at, parts of it are never written; nor are tensors that other ops make.
    void expect_finite(const Op& op) const {
        for (const Access& access : op.accesses) {
            const BufferKind kind = parts_.schedule.buffers[index(access.buffer)].kind;
            if (access.mode == AccessMode::kRead || kind == BufferKind::kWorkspace || kind == BufferKind::kOptimizer)
                continue;
            if (kind == BufferKind::kComm && !std::holds_alternative<Collective>(op.work) &&
                op.tag.function == Function::kGradientNorm)
                continue;
            expect_finite(op, access);
        }
    }
    void expect_finite(const Op& op, const Access& access) const;
    void expect_finite(const Op& op, const Buffer& buffer, std::span<const float> values) const;

    const EngineParts parts_;
    const std::optional<StandIns> stand_ins_;  // where not all ranks are local
    std::vector<std::size_t> position_;        // by rank: among the local ones, where it is one
    std::int64_t step_begin_ = 0;
    std::atomic<bool> in_step_{false};
    RunMonitor monitor_;
    const std::vector<RankArenas> arenas_;
    const std::vector<float> rotary_;
    Communicators communicators_;
    std::deque<Communicator> loss_groups_;  // by sequence-parallel group
    std::vector<StepFindings> findings_;
    std::deque<RankContext> contexts_;
    std::vector<BoundOp> bound_;                  // by op
    std::vector<std::vector<SliceView>> slices_;  // by local rank, by offset
    std::optional<CpuRun> run_;                   // last: its threads end before the rest goes
};

void CpuEngine::add_loss_groups() {
    const RunShape& shape = parts_.shape;
    if (shape.weight_shards == 1 || stand_ins_) return;
    for (std::size_t r = 0; r < parts_.schedule.ranks.size(); r += static_cast<std::size_t>(shape.shards)) {
        std::vector<Rank> members;
        for (std::int64_t t = 0; t < shape.shards; ++t) members.push_back(id_at<Rank>(r + static_cast<std::size_t>(t)));
        loss_groups_.emplace_back(fmt::format("loss of ranks {} to {}", r, index(members.back())), members, monitor_);
    }
}

void CpuEngine::add_contexts() {
    const RunShape& shape = parts_.shape;
    findings_.resize(parts_.local.size());
    for (StepFindings& f : findings_) f.loss_sum.assign(static_cast<std::size_t>(parts_.scenario.batch), 0);
    for (std::size_t k = 0; k < findings_.size(); ++k) {
        const Rank rank = parts_.local[k];
        const ParameterLayout& layout = parts_.layouts[index(rank)];
        slices_.push_back(slice_views(parts_.schedule, arenas_[k], layout));
        const auto group = index(rank) / static_cast<std::size_t>(shape.shards);
        contexts_.push_back(RankContext{{parts_.scenario, shape, parts_.schedule, arenas_[k], layout, rank},
                                        rotary_,
                                        communicators_,
                                        loss_groups_.empty() ? nullptr : &loss_groups_[group],
                                        parts_.inputs,
                                        findings_[k],
                                        stand_ins_ ? &*stand_ins_ : nullptr,
                                        &step_begin_});
    }
}

std::span<float> CpuEngine::values_of(Rank rank, const ParameterSlice& slice, ParameterState state) const {
    const std::vector<SliceView>& views = slices_[position(rank)];
    const auto at = std::lower_bound(views.begin(), views.end(), slice.offset,
                                     [](const SliceView& view, std::int64_t offset) { return view.offset < offset; });
    switch (state) {
        case ParameterState::kWeights:
            return at->weights;
        case ParameterState::kGradients:
            return at->gradients;
        case ParameterState::kFirstMoment:
            return at->first_moment;
        case ParameterState::kSecondMoment:
            return at->second_moment;
    }
    return {};
}

MemoryUse CpuEngine::memory() const {
    MemoryUse use;
    for (const RankArenas& of_rank : arenas_) {
        use.device += Bytes{static_cast<std::int64_t>(of_rank.arena(Space::kDevice).size())};
        use.host += Bytes{static_cast<std::int64_t>(of_rank.arena(Space::kHost).size())};
    }
    use.process = resident_memory();
    use.beyond = use.process - use.device - use.host;
    return use;
}

void CpuEngine::expect_finite(const Op& op, const Access& access) const {
    const RankArenas& of_rank = arenas_[position(op.rank)];
    const Buffer& buffer = parts_.schedule.buffers[index(access.buffer)];
    const std::span<float> values = as_floats(of_rank.span_of(access));
    if (buffer.tensors.empty()) return expect_finite(op, buffer, values);
    std::size_t begin = 0;
    for (const SavedTensor& saved : buffer.tensors) {
        const std::size_t count = static_cast<std::size_t>(saved.bytes.value) / sizeof(float);
        if (makes(op.tag.function, saved.tensor)) expect_finite(op, buffer, values.subspan(begin, count));
        begin += count;
    }
}

void CpuEngine::expect_finite(const Op& op, const Buffer& buffer, std::span<const float> values) const {
    const auto at = first_non_finite(values);
    if (!at) return;
    throw InternalError(fmt::format(
        "step {}: the first value that is not finite is made by {}, {} {} of layer {}, subsequence {}: value {} of {}",
        parts_.inputs.optimizer.step, describe(op), name(op.tag.phase), name(op.tag.function), op.tag.layer,
        op.tag.subsequence, *at, describe(buffer)));
}

}  // namespace

EngineMaker cpu_engine(const CpuOptions& options, const std::optional<StandIns>& stand_ins) {
    return [=](const EngineParts& parts) -> std::unique_ptr<Engine> {
        return std::make_unique<CpuEngine>(parts, options, stand_ins);
    };
}

}  // namespace sluice

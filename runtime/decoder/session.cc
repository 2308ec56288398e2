#include "runtime/decoder/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <fstream>
#include <map>
#include <utility>

#include "base/error.h"
#include "runtime/cpu/first_non_finite.h"
#include "runtime/decoder/bind_op.h"
#include "runtime/whole_parameters.h"
#include "schedule/describe.h"

namespace sluice {
namespace {

// Where a slice's elements are in a buffer of the rank.
struct SliceView {
    const ParameterSlice* slice = nullptr;
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
        expect_one(buffers_of(schedule, arenas, BufferKind::kOptimizer), 2 * layout.elements, "optimizer state");
    const std::vector<std::span<float>> gradients = buffers_of(schedule, arenas, BufferKind::kGrads);
    std::size_t values = 0;
    for (const std::span<float> g : gradients) values += g.size();
    if (gradients.size() != (layout.head_part ? 2U : 1U) || values != static_cast<std::size_t>(layout.elements))
        throw InputError(fmt::format("this schedule cannot be run: got {} values of gradients on a rank, expected {}",
                                     values, layout.elements));
    std::vector<SliceView> views;
    for (const ParameterSlice& slice : layout.slices) {
        const auto at = static_cast<std::size_t>(slice.offset), count = static_cast<std::size_t>(slice.held());
        const bool head = layout.head_part && slice.offset >= layout.head_part->offset;
        const std::size_t from = head ? static_cast<std::size_t>(layout.head_part->offset) : 0;
        views.push_back({&slice, weights.subspan(at, count), gradients[head ? 1 : 0].subspan(at - from, count),
                         moments.subspan(at, count),
                         moments.subspan(static_cast<std::size_t>(layout.elements) + at, count)});
    }
    return views;
}

// Does an op of this function write all of the tensor, in forward or when it is made again?
bool makes(Function function, Tensor tensor) {
    using enum Tensor;
    switch (tensor) {
        case kBlockInput:
            return function == Function::kNorm1;
        case kNorm1Statistics:
            return function == Function::kNorm1 || function == Function::kNorms;
        case kQuery:
            return function == Function::kAttention || function == Function::kQuery;
        case kAttentionOutput:
        case kLogSumExp:
            return function == Function::kAttention;
        case kMiddleResidual:
            return function == Function::kNorm2;
        case kNorm2Statistics:
            return function == Function::kNorm2 || function == Function::kNorms;
        case kFirstMlpOutput:
        case kActivationOutput:
            return function == Function::kMlp;
        case kNorm1Output:  // of all rows it may be the next op, a gather, that writes the rest
        case kNorm2Output:
            return false;
    }
    return false;
}

Bytes resident_memory() {
    std::ifstream statm("/proc/self/statm");
    std::int64_t size = 0, resident = 0;
    statm >> size >> resident;
    return Bytes{resident * sysconf(_SC_PAGESIZE)};
}

std::vector<float> rotary_table(const Scenario& s) {
    if (s.model.positions != Positions::kRope) return {};
    const RotaryShape shape{s.model.head_dim, s.model.head_dim, s.model.rope_theta};
    std::vector<float> table(static_cast<std::size_t>(rotary_table_bytes(shape, s.sequence).value) / sizeof(float));
    fill_rotary_table(shape, Tokens{}, s.sequence, table);
    return table;
}

}  // namespace

struct Session::State {
    Scenario scenario;
    Schedule schedule;
    RunShape shape;
    std::vector<ParameterLayout> layouts;  // by rank
    RunMonitor monitor;
    std::vector<RankArenas> arenas;
    std::vector<float> rotary;
    Communicators communicators;
    std::deque<Communicator> loss_groups;  // by sequence-parallel group
    StepInputs inputs;
    std::vector<StepFindings> findings;
    std::deque<RankContext> contexts;
    std::vector<BoundOp> bound;                  // by op
    std::vector<std::vector<SliceView>> slices;  // by rank
    std::int64_t steps = 0;
    std::optional<CpuRun> run;

    State(Scenario scenario_in, Schedule schedule_in, const CpuOptions& options)
        : scenario(std::move(scenario_in)),
          schedule(std::move(schedule_in)),
          shape(read_run_shape(scenario, schedule)),
          arenas(map_arenas(schedule)),
          rotary(rotary_table(scenario)),
          communicators(schedule, monitor) {
        if (scenario.precision.weights != DataType::kFp32 || scenario.precision.kv_gradients != DataType::kFp32 ||
            scenario.precision.gradients != DataType::kFp32)
            throw InputError(
                "this schedule cannot be run on the CPU: got bf16, expected precision fp32 throughout (in the "
                "scenario: precision: {weights: fp32})");
        const std::size_t ranks = schedule.ranks.size();
        add_loss_groups();
        findings.resize(ranks);
        for (StepFindings& f : findings) f.loss_sum.assign(static_cast<std::size_t>(scenario.batch), 0);
        for (std::size_t r = 0; r < ranks; ++r) layouts.push_back(parameter_layout(scenario, shape, id_at<Rank>(r)));
        for (std::size_t r = 0; r < ranks; ++r) {
            slices.push_back(slice_views(schedule, arenas[r], layouts[r]));
            const auto group = r / static_cast<std::size_t>(shape.shards);
            contexts.push_back(RankContext{scenario, shape, schedule, arenas[r], layouts[r], id_at<Rank>(r), rotary,
                                           communicators, shape.shards > 1 ? &loss_groups[group] : nullptr, inputs,
                                           findings[r]});
        }
        for (const Op& op : schedule.ops) bound.push_back(bind_op(contexts[index(op.rank)], op));
        run.emplace(
            schedule, arenas, monitor,
            [this](const Op& op, KernelClock& clock) {
                bound[index(op.id)](clock);
                if (inputs.check_finite) expect_finite(op);
            },
            options);
    }

    void add_loss_groups() {
        if (shape.shards == 1) return;
        for (std::size_t r = 0; r < schedule.ranks.size(); r += static_cast<std::size_t>(shape.shards)) {
            std::vector<Rank> members;
            for (std::int64_t t = 0; t < shape.shards; ++t)
                members.push_back(id_at<Rank>(r + static_cast<std::size_t>(t)));
            loss_groups.emplace_back(fmt::format("loss of ranks {} to {}", r, index(members.back())), members, monitor);
        }
    }

    // What the op wrote. Scratch is not looked at, parts of it are never written; nor are tensors that other ops make.
    void expect_finite(const Op& op) const {
        for (const Access& access : op.accesses) {
            const BufferKind kind = schedule.buffers[index(access.buffer)].kind;
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

    double loss() const {
        double sum = 0;
        for (std::size_t r = 0; r < findings.size(); ++r)
            if (shape.last_stage(id_at<Rank>(r)) && shape.ranks[r].shard == 0)
                for (const double of_sequence : findings[r].loss_sum) sum += of_sequence;
        return sum / static_cast<double>(scenario.sequence.value * scenario.batch);
    }

    void run_step() {
        for (StepFindings& f : findings) std::fill(f.loss_sum.begin(), f.loss_sum.end(), 0.0);
        run->run_step();
    }

    std::vector<WholeParameter> gathered(std::span<float> SliceView::*weights) const;
};

void Session::State::expect_finite(const Op& op, const Access& access) const {
    const RankArenas& of_rank = arenas[index(op.rank)];
    const Buffer& buffer = schedule.buffers[index(access.buffer)];
    const std::span<float> values = as_floats(of_rank.span_of(access));
    if (buffer.tensors.empty()) return expect_finite(op, buffer, values);
    std::size_t begin = 0;
    for (const SavedTensor& saved : buffer.tensors) {
        const std::size_t count = static_cast<std::size_t>(saved.bytes.value) / sizeof(float);
        if (makes(op.tag.function, saved.tensor)) expect_finite(op, buffer, values.subspan(begin, count));
        begin += count;
    }
}

void Session::State::expect_finite(const Op& op, const Buffer& buffer, std::span<const float> values) const {
    const auto at = first_non_finite(values);
    if (!at) return;
    throw InternalError(fmt::format(
        "step {}: the first value that is not finite is made by {}, {} {} of layer {}, subsequence {}: value {} of {}",
        steps + 1, describe(op), name(op.tag.phase), name(op.tag.function), op.tag.layer, op.tag.subsequence, *at,
        describe(buffer)));
}

Session::Session(Scenario scenario, Schedule schedule, const CpuOptions& options)
    : state_(std::make_unique<State>(std::move(scenario), std::move(schedule), options)) {}
Session::~Session() = default;

void Session::initialise(std::uint64_t seed) {
    for (const auto& of_rank : state_->slices)
        for (const SliceView& view : of_rank) {
            initialise_slice(*view.slice, state_->scenario.model.layers, seed, view.weights);
            std::fill(view.first_moment.begin(), view.first_moment.end(), 0.0F);
            std::fill(view.second_moment.begin(), view.second_moment.end(), 0.0F);
        }
    state_->steps = 0;
}

StepReport Session::step(StepTokens tokens, const StepSettings& settings) {
    State& s = *state_;
    const auto length = static_cast<std::size_t>(s.scenario.sequence.value);
    const auto batch = static_cast<std::size_t>(s.scenario.batch);
    for (const auto* of : {&tokens.inputs, &tokens.targets}) {
        if (of->size() != batch) throw InternalError("a step needs the tokens of every sequence of the batch");
        for (const auto& sequence : *of)
            if (sequence.size() != length) throw InternalError("a sequence has another length than the scenario's");
    }
    s.inputs.inputs = std::move(tokens.inputs), s.inputs.targets = std::move(tokens.targets);
    s.inputs.clip = settings.clip;
    s.inputs.optimizer = {settings.learning_rate,
                          settings.beta1,
                          settings.beta2,
                          settings.epsilon,
                          settings.weight_decay,
                          1,
                          s.steps + 1};
    s.run_step();
    const StepFindings& findings = s.findings.front();
    const StepReport report{s.steps + 1, s.loss(), findings.gradient_norm, s.run->step_time()};
    if (!findings.stepped || !std::isfinite(report.loss)) {
        s.inputs.check_finite = true;
        s.run_step();  // throws at the first op that writes such a value
        throw InternalError(fmt::format("step {}: the loss is {} and the gradients' norm {}: no update is made",
                                        report.step, report.loss, report.gradient_norm));
    }
    ++s.steps;
    return report;
}

std::int64_t Session::steps() const { return state_->steps; }
void Session::set_steps(std::int64_t steps) { state_->steps = steps; }
const Scenario& Session::scenario() const { return state_->scenario; }
const Schedule& Session::schedule() const { return state_->schedule; }
const RunShape& Session::shape() const { return state_->shape; }
const std::vector<RankArenas>& Session::arenas() const { return state_->arenas; }
CpuRun& Session::run() { return *state_->run; }

Session::MemoryUse Session::memory() const {
    MemoryUse use;
    for (const RankArenas& of_rank : state_->arenas) {
        use.device += Bytes{static_cast<std::int64_t>(of_rank.arena(Space::kDevice).size())};
        use.host += Bytes{static_cast<std::int64_t>(of_rank.arena(Space::kHost).size())};
    }
    use.process = resident_memory();
    return use;
}

// Replicas hold the same: the first one's are taken.
std::vector<WholeParameter> Session::State::gathered(std::span<float> SliceView::*weights) const {
    struct Whole {
        WholeTensor weights, first_moment, second_moment;
    };
    std::map<std::string, Whole> whole;
    for (std::size_t r = 0; r < slices.size(); ++r) {
        if (shape.ranks[r].replica != 0) continue;
        for (const SliceView& view : slices[r]) {
            const auto [at, is_new] = whole.try_emplace(view.slice->name);
            Whole& w = at->second;
            if (is_new) w.weights = w.first_moment = w.second_moment = empty_tensor(*view.slice);
            add_to_whole(*view.slice, view.*weights, w.weights);
            add_to_whole(*view.slice, view.first_moment, w.first_moment);
            add_to_whole(*view.slice, view.second_moment, w.second_moment);
        }
    }
    std::vector<WholeParameter> all;
    for (auto& [name, w] : whole)
        all.push_back({name, w.weights.shape, std::move(w.weights.values), std::move(w.first_moment.values),
                       std::move(w.second_moment.values)});
    return all;
}

std::vector<WholeParameter> Session::parameters() const { return state_->gathered(&SliceView::weights); }
std::vector<WholeParameter> Session::gradients() const { return state_->gathered(&SliceView::gradients); }

void Session::set_parameters(std::span<const WholeParameter> parameters) {
    std::map<std::string_view, const WholeParameter*> by_name;
    for (const WholeParameter& p : parameters) by_name[p.name] = &p;
    for (const auto& of_rank : state_->slices)
        for (const SliceView& view : of_rank) {
            const auto found = by_name.find(view.slice->name);
            if (found == by_name.end()) throw InputError(fmt::format("parameter {} is missing", view.slice->name));
            const WholeParameter& p = *found->second;
            const WholeTensor expected = empty_tensor(*view.slice);
            if (p.shape != expected.shape)
                throw InputError(fmt::format("parameter {} has another shape, got ({}), expected ({})", p.name,
                                             fmt::join(p.shape, ", "), fmt::join(expected.shape, ", ")));
            take_from_whole(*view.slice, {p.shape, p.weights}, view.weights);
            take_from_whole(*view.slice, {p.shape, p.first_moment}, view.first_moment);
            take_from_whole(*view.slice, {p.shape, p.second_moment}, view.second_moment);
        }
}

}  // namespace sluice

#include "runtime/decoder/session.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "runtime/local_ranks.h"
#include "runtime/whole_parameters.h"

namespace sluice {

struct Session::State {
    Scenario scenario;
    Schedule schedule;
    RunPart part;
    RunShape shape;
    std::vector<ParameterLayout> layouts;  // by rank
    StepInputs inputs;
    std::int64_t steps = 0;
    std::unique_ptr<Engine> engine;

    State(Scenario scenario_in, Schedule schedule_in, const EngineMaker& make, RunPart part_in)
        : scenario(std::move(scenario_in)),
          schedule(std::move(schedule_in)),
          part(std::move(part_in)),
          shape(read_run_shape(scenario, schedule, local_ranks())) {
        layouts.resize(schedule.ranks.size());
        for (const Rank rank : part.local) layouts[index(rank)] = parameter_layout(scenario, shape, rank);
        engine = make(EngineParts{scenario, schedule, shape, layouts, part.local, inputs});
    }

    const std::vector<Rank>& local_ranks() {
        if (part.local.empty()) part.local = all_ranks(schedule);
        return part.local;
    }

    // Shards that share out the vocabulary all know the loss of all tokens; with Ulysses each has that of its own.
    bool counts_loss(Rank rank) const {
        return shape.last_stage(rank) && shape.ranks[index(rank)].shard < shape.shards / shape.weight_shards;
    }

    // Of all ranks' findings; nothing where this process knows only of some.
    std::optional<double> loss(const std::vector<StepFindings>& findings) const {
        if (findings.size() < schedule.ranks.size()) return std::nullopt;
        double sum = 0;
        for (std::size_t r = 0; r < findings.size(); ++r)
            if (counts_loss(id_at<Rank>(r)))
                for (const double of_sequence : findings[r].loss_sum) sum += of_sequence;
        return sum / static_cast<double>(scenario.sequence.value * scenario.batch);
    }

    std::vector<WholeParameter> gathered(ParameterState weights) const;
};

Session::Session(Scenario scenario, Schedule schedule, const EngineMaker& engine, RunPart part)
    : state_(std::make_unique<State>(std::move(scenario), std::move(schedule), engine, std::move(part))) {}
Session::~Session() = default;

void Session::initialise(std::uint64_t seed) {
    State& s = *state_;
    std::vector<float> values;
    for (const Rank rank : s.part.local)
        for (const ParameterSlice& slice : s.layouts[index(rank)].slices) {
            values.resize(static_cast<std::size_t>(slice.held()));
            initialise_slice(slice, s.scenario.model.layers, seed, values);
            s.engine->write(rank, slice, ParameterState::kWeights, values);
            std::fill(values.begin(), values.end(), 0.0F);
            s.engine->write(rank, slice, ParameterState::kFirstMoment, values);
            s.engine->write(rank, slice, ParameterState::kSecondMoment, values);
        }
    s.steps = 0;
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
    s.inputs.check_finite = false;
    const std::vector<StepFindings>& local = s.engine->run_step();
    const StepFindings& findings = local.front();
    const std::optional<double> loss = s.loss(s.part.share ? s.part.share(local) : local);
    const StepReport report{s.steps + 1, loss, findings.gradient_norm, s.engine->step_time()};
    if (!findings.stepped || !std::isfinite(loss.value_or(0))) {
        s.inputs.check_finite = true;
        s.engine->run_step();  // throws at the first op that writes such a value
        throw InternalError(fmt::format("step {}: the loss is {} and the gradients' norm {}: no update is made",
                                        report.step, loss ? fmt::format("{}", *loss) : "not known here",
                                        report.gradient_norm));
    }
    ++s.steps;
    return report;
}

std::int64_t Session::steps() const { return state_->steps; }
void Session::set_steps(std::int64_t steps) { state_->steps = steps; }
const Scenario& Session::scenario() const { return state_->scenario; }
const Schedule& Session::schedule() const { return state_->schedule; }
const RunShape& Session::shape() const { return state_->shape; }
const std::vector<Rank>& Session::local() const { return state_->part.local; }
Engine& Session::engine() { return *state_->engine; }

// Replicas hold the same: the first one's are taken, or from each what it steps.
std::vector<WholeParameter> Session::State::gathered(ParameterState weights) const {
    struct Whole {
        WholeTensor weights, first_moment, second_moment;
    };
    std::map<std::string, Whole> whole;
    std::vector<float> values;
    for (const Rank rank : part.local) {
        const RankRole& role = shape.ranks[index(rank)];
        if (role.replica != 0 && !shape.shares_states) continue;
        for (const ParameterSlice& slice : layouts[index(rank)].slices) {
            if (slice.replicated && role.shard != 0) continue;
            const auto [at, is_new] = whole.try_emplace(slice.name);
            Whole& w = at->second;
            if (is_new) w.weights = w.first_moment = w.second_moment = empty_tensor(slice);
            if (slice.stepped == 0) continue;
            values.resize(static_cast<std::size_t>(slice.stepped));
            const auto add = [&](ParameterState state, WholeTensor& to) {
                engine->read(rank, slice, state, values);
                add_to_whole(slice, values, to);
            };
            add(weights, w.weights);
            add(ParameterState::kFirstMoment, w.first_moment);
            add(ParameterState::kSecondMoment, w.second_moment);
        }
    }
    std::vector<WholeParameter> all;
    for (auto& [name, w] : whole)
        all.push_back({name, w.weights.shape, std::move(w.weights.values), std::move(w.first_moment.values),
                       std::move(w.second_moment.values)});
    return all;
}

std::vector<WholeParameter> Session::parameters() const { return state_->gathered(ParameterState::kWeights); }
std::vector<WholeParameter> Session::gradients() const { return state_->gathered(ParameterState::kGradients); }

std::vector<WholeParameter> Session::blank_parameters() const {
    std::map<std::string, const ParameterSlice*> held;
    for (const Rank rank : state_->part.local)
        for (const ParameterSlice& slice : state_->layouts[index(rank)].slices) held.try_emplace(slice.name, &slice);
    std::vector<WholeParameter> all;
    for (const auto& [name, slice] : held) {
        WholeTensor blank = empty_tensor(*slice);
        all.push_back({name, std::move(blank.shape), blank.values, blank.values, blank.values});
    }
    return all;
}

void Session::set_parameters(std::span<const WholeParameter> parameters) {
    State& s = *state_;
    std::map<std::string_view, const WholeParameter*> by_name;
    for (const WholeParameter& p : parameters) by_name[p.name] = &p;
    std::vector<float> values;
    for (const Rank rank : s.part.local)
        for (const ParameterSlice& slice : s.layouts[index(rank)].slices) {
            const auto found = by_name.find(slice.name);
            if (found == by_name.end()) throw InputError(fmt::format("parameter {} is missing", slice.name));
            const WholeParameter& p = *found->second;
            const WholeTensor expected = empty_tensor(slice);
            if (p.shape != expected.shape)
                throw InputError(fmt::format("parameter {} has another shape, got ({}), expected ({})", p.name,
                                             fmt::join(p.shape, ", "), fmt::join(expected.shape, ", ")));
            values.resize(static_cast<std::size_t>(slice.held()));
            const auto set = [&](const std::vector<float>& whole, ParameterState state) {
                take_from_whole(slice, {p.shape, whole}, values);
                s.engine->write(rank, slice, state, values);
            };
            set(p.weights, ParameterState::kWeights);
            set(p.first_moment, ParameterState::kFirstMoment);
            set(p.second_moment, ParameterState::kSecondMoment);
        }
}

}  // namespace sluice

// A training run, or one process' part in it: ranks and their memory, weights, optimizer state, step after step.
//
// Everything is made in the constructor; a step allocates nothing but what reading its tokens needs, before it begins.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/decoder/engine.h"
#include "runtime/run_shape.h"
#include "runtime/vocabulary_shard.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.h"

namespace sluice {

// What one step is given. Targets are the inputs shifted by one; both are of the scenario's sequence length, one entry
// per sequence of the batch.
struct StepTokens {
    std::vector<std::vector<TokenId>> inputs, targets;
};
struct StepSettings {
    float learning_rate = 0;
    float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, weight_decay = 0.1F;
    double clip = 1;  // limit of the gradients' norm; 0: not clipped
};

struct StepReport {
    std::int64_t step = 0;     // counted from 1
    std::optional<double> loss;  // mean over all tokens of the batch; nothing where other ranks are unheard of
    double gradient_norm = 0;    // of the whole model, before clipping
    Seconds time{};
};

// A whole parameter and its moments, as they stand in a checkpoint: rows one behind the other, GPT-2's linear layers
// (in, out).
struct WholeParameter {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<float> weights, first_moment, second_moment;
};

// Called when a step has ended, with what the local ranks found in it, in their order. Returns the same of all ranks of
// the run, by rank.
using ShareFindings = std::function<std::vector<StepFindings>(const std::vector<StepFindings>& local)>;

// Which of the schedule's ranks this process runs, and how it hears of the others.
struct RunPart {
    std::vector<Rank> local;  // ascending; empty: all
    ShareFindings share;      // empty: it does not
};

class Session {
public:
    // Refers to nothing of the caller's. Throws InputError for a schedule that cannot be run, EnvironmentError when
    // memory is short.
    Session(Scenario scenario, Schedule schedule, const EngineMaker& engine, RunPart part = {});
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // Weights from a normal distribution of deviation 0.02 (those that end in the residual stream divided by
    // sqrt(2 layers), as GPT-2), norms 1, biases 0; moments 0; step 0. The value of a parameter depends on the seed,
    // its name and its place in it alone, so every cut of the model starts from the same bits.
    void initialise(std::uint64_t seed);

    // Runs one step. Throws InputError, EnvironmentError or InternalError with one line; after that the session is of
    // no more use. A gradient norm that is not finite is looked for op by op in a second run of the same step, which
    // leaves weights and state alone, and the error names the op, the layer and the subsequence where it came up first.
    StepReport step(StepTokens tokens, const StepSettings& settings);

    std::int64_t steps() const;  // done
    void set_steps(std::int64_t steps);

    // Gathered over local ranks, by name: elements that none of them holds are 0, parameters are missing.
    std::vector<WholeParameter> parameters() const;
    // All that local ranks hold, of whichever replica, with its whole shape and zeros: to be filled and set.
    std::vector<WholeParameter> blank_parameters() const;
    // Every parameter of the local ranks has to be there, with its whole shape. Throws InputError naming the first that
    // is not.
    void set_parameters(std::span<const WholeParameter> parameters);

    const Scenario& scenario() const;
    const Schedule& schedule() const;
    const RunShape& shape() const;
    const std::vector<Rank>& local() const;
    Engine& engine();

    // A gradient of the last step, gathered over ranks: before the step only what earlier steps left. For tests.
    std::vector<WholeParameter> gradients() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace sluice

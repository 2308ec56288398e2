// What a session runs its steps on: the CPU, or GPUs. It holds the memory of the local ranks, those that this process
// runs, and what every op does there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/decoder/step_inputs.h"
#include "runtime/parameter_layout.h"
#include "runtime/rank_arenas.h"
#include "runtime/run_monitor.h"
#include "runtime/run_shape.h"
#include "runtime/step_times.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.h"

namespace sluice {

// Of a parameter. Weights are the fp32 ones that the optimizer keeps, wherever kernels read others.
enum class ParameterState : std::uint8_t { kWeights, kGradients, kFirstMoment, kSecondMoment };

struct MemoryUse {
    Bytes device{}, host{};  // arenas of the local ranks
    Bytes process{};         // resident in the host's memory, of the whole process
    Bytes beyond{};          // of that, what is no arena
    Bytes device_beyond{};   // in a GPU's memory beyond its arena: context, libraries, tokens; 0 on the CPU
};

class Engine {
public:
    virtual ~Engine() = default;

    // The slice's values on the rank, a local one, between steps. Read are those that the rank steps; written are all
    // that it holds, and of a state that replicas share out those that it steps are kept.
    virtual void read(Rank, const ParameterSlice&, ParameterState, std::span<float> values) const = 0;
    virtual void write(Rank, const ParameterSlice&, ParameterState, std::span<const float> values) = 0;

    // Runs one step on EngineParts::inputs and returns what each local rank found, in their order. Throws the first
    // failure, in one line; after that the engine is of no more use.
    virtual const std::vector<StepFindings>& run_step() = 0;

    // Of the last step: ops of local ranks, 0 for others.
    virtual const StepTimes& times() const = 0;
    virtual Seconds step_time() const = 0;

    // From the next step on.
    virtual void limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit) = 0;

    virtual const RankArenas& arenas(Rank) const = 0;  // of a local rank
    virtual MemoryUse memory() const = 0;

    // For threads that watch, at any time. These return at once: whether a step is under way, or failed; what it failed
    // with (what goes wrong between steps is the next one's failure, if there is one: others may be done with theirs);
    // and an end to every wait of the run. An engine that nobody needs to watch does nothing.
    virtual bool in_step() const { return false; }
    virtual std::optional<RunFailure> failure() const { return {}; }
    virtual void stop(FailureKind, const std::string&) {}
    // These look at the device, which may keep them for long; by one thread at a time. How many ops of the local ranks
    // have ended in all steps, and which are in flight: one line; empty between steps.
    virtual std::uint64_t ended_ops() { return 0; }
    virtual std::string in_flight() { return {}; }
};

// What an engine is made for; it outlives the engine and does not move.
struct EngineParts {
    const Scenario& scenario;
    const Schedule& schedule;
    const RunShape& shape;
    std::span<const ParameterLayout> layouts;  // by rank; empty ones for ranks that are not local
    std::span<const Rank> local;               // ascending
    const StepInputs& inputs;                  // written between steps
};
using EngineMaker = std::function<std::unique_ptr<Engine>(const EngineParts&)>;

}  // namespace sluice

// A run of many steps: data, session, checkpoints, and what is told about each step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/units.h"
#include "planner/folded_step.h"
#include "planner/plan.h"
#include "runtime/cpu/learning_rate.h"
#include "runtime/data/sequence_stream.h"
#include "runtime/decoder/session.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.h"
#include "tools/sluice/choose_engine.h"
#include "traces/trace.h"

namespace sluice {

struct TrainingOptions {
    std::filesystem::path data;
    std::optional<std::uint64_t> shuffle_seed;
    std::uint64_t seed = 0;  // of the weights
    std::int64_t steps = 0;  // in all, those before a resume included
    LearningRateSchedule learning_rate;
    double clip = 1;
    std::filesystem::path checkpoints;  // empty: none
    std::int64_t checkpoint_every = 0;  // steps; the last step always
    bool resume = false;                // else `checkpoints` must have none
    DeviceOptions device;
};

// What is known of a step when it has ended.
struct StepRecord {
    StepReport report;
    float learning_rate = 0;
    double tokens_per_second = 0;
    double exposed_copies = 0;        // share of the step, mean over ranks: compute lanes idle for copies
    double worst_exposed_copies = 0;  // the same of the rank with most
    double of_floor = 0;              // what the compute of the busiest rank takes by the calibration / the step
    MemoryUse memory;
    Bytes device_peak{}, host_peak{};  // live bytes, of the fullest rank and of all pinned memory
    Bytes predicted_beyond{};          // of memory.device_beyond, by the cluster's numbers; 0 on the CPU
};

// What a scenario runs as: every choice made, layer by layer, with its prediction.
struct PlannedRun {
    Scenario scenario;
    Plan plan;
    FoldedStep folded;   // a rank per stage, placed
    Schedule schedule;   // all ranks
    Seconds floor{};     // compute of the busiest rank, by the calibration
    Seconds estimate{};  // the step by the cost model
    std::optional<Rank> alone{};  // the schedule is this rank's slice (slice_run.h)
};

// Compute of the rank with most of it.
Seconds busiest_compute(const Schedule&, const Calibration&);

// The reasons of a scenario that does not fit are in `refused`.
std::optional<PlannedRun> plan_run(Scenario scenario, std::vector<std::string>& refused);

// Throws what TrainingRun's constructor would throw for the options' data and folder, before memory is mapped.
void expect_usable(const TrainingOptions&, const Scenario&);

class TrainingRun {
public:
    // Opens the data, maps memory, initialises weights or reads the newest whole checkpoint. `notes`: lines that a user
    // should read (a resumed step, checkpoints that were refused). Throws InputError where a run that does not resume
    // would write into a folder with checkpoints: a later resume would take one of the other run.
    TrainingRun(PlannedRun planned, TrainingOptions options, std::vector<std::string>& notes);
    ~TrainingRun();

    bool done() const;
    // Runs the next step; writes a checkpoint when one is due.
    // `tell`, if not empty, is called before the checkpoint is written: a step that a checkpoint has is never untold.
    StepRecord step(const std::function<void(const StepRecord&)>& tell = {});
    // Of the last step, with provenance.
    Trace trace() const;

    // Continues with another schedule of the same scenario's model and length: weights, state, data position and limits
    // of copies go on.
    void replace(PlannedRun planned);

    // From the next step on, on every rank. Stays when the plan is replaced.
    void limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit);

    const PlannedRun& planned() const;
    Session& session();

private:
    struct State;
    std::unique_ptr<State> state_;
};

// One line for a person, one for a machine (docs/command.md has the keys).
std::string step_line(const StepRecord& record, std::int64_t steps);
std::string step_json(const StepRecord& record);

// Of the last step: GPU memory beside the arenas, predicted and measured. Empty on the CPU.
std::string beyond_line(const StepRecord& record);

}  // namespace sluice

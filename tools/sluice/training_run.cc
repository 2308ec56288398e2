#include "tools/sluice/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/format_units.h"
#include "models/device_memory.h"
#include "models/kernel_cost.h"
#include "models/pinned_memory.h"
#include "planner/lower.h"
#include "planner/unfold_step.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_folder.h"
#include "runtime/checkpoint/write_checkpoint.h"
#include "runtime/data/open_tokens.h"
#include "runtime/measured_trace.h"
#include "scenarios/policy_names.h"
#include "scenarios/write_hf_config.h"
#include "schedule/schedule_file.h"
#include "schedule/verify.h"
#include "tools/sluice/choose_plan.h"
#include "tools/sluice/run_job.h"
#include "traces/step_summary.h"

namespace sluice {
namespace {

std::string plan_text(const Scenario& s) {
    const Policy& p = s.policy;
    const std::string zero = s.shares(ZeroStage::kOptimizer) ? fmt::format(" (zero {})", static_cast<int>(p.zero)) : "";
    return fmt::format("sp {}{} pp {} dp {}{} n {}, {}, {}, {} tokens x {}", p.sp, s.ulysses() ? " (ulysses)" : "",
                       p.pp, p.dp, zero, p.n, name(p.order), name(p.placement), s.sequence.value, s.batch);
}

std::string data_text(const TrainingOptions& options, const SequenceStream& stream) {
    return fmt::format(
        "{} tokens in sequences of {}, {}", stream.source().tokens().value, stream.length().value,
        options.shuffle_seed ? fmt::format("shuffled by seed {}", *options.shuffle_seed) : std::string("as stored"));
}

// As many files as stages, with equally many parameters each, in the order of names: any plan can read any of them.
std::vector<std::vector<TensorToWrite>> optimizer_shards(const std::vector<WholeParameter>& parameters,
                                                         std::int64_t stages) {
    std::vector<std::vector<TensorToWrite>> shards(static_cast<std::size_t>(stages));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const WholeParameter& p = parameters[i];
        auto& shard = shards[i * shards.size() / parameters.size()];
        shard.push_back(float_tensor(first_moment_name(p.name), p.shape, p.first_moment));
        shard.push_back(float_tensor(second_moment_name(p.name), p.shape, p.second_moment));
    }
    return shards;
}

std::vector<float> floats_of(const TensorView& tensor, std::size_t count) {
    std::vector<float> values(count);
    read_floats(tensor, 0, values);
    return values;
}

SequenceStream open_stream(const TrainingOptions& options, const Scenario& s) {
    return {open_tokens(options.data, s.model.vocabulary), {s.sequence, options.shuffle_seed}};
}

// A run that starts anew among another one's checkpoints would, once resumed, go on from the other's.
void expect_own_folder(const TrainingOptions& options) {
    if (options.resume || options.checkpoints.empty()) return;
    if (const std::vector<std::int64_t> steps = checkpoint_steps(options.checkpoints); !steps.empty())
        throw InputError(
            fmt::format("{}: has checkpoints up to step {} of an earlier run, expected a folder without, or --resume",
                        options.checkpoints.string(), steps.front()));
}

}  // namespace

Seconds busiest_compute(const Schedule& schedule, const Calibration& calibration) {
    std::vector<Seconds> busy(schedule.ranks.size());
    for (const Op& op : schedule.ops)
        if (const auto* work = std::get_if<Compute>(&op.work)) busy[index(op.rank)] += compute_time(*work, calibration);
    return *std::max_element(busy.begin(), busy.end());
}

std::optional<PlannedRun> plan_run(Scenario scenario, std::vector<std::string>& refused) {
    scenario.policy.granularity = Granularity::kLayer;  // what a runtime runs
    refused = make_choices(scenario);
    if (!refused.empty()) return std::nullopt;
    PlannedStep step = plan_step(scenario);
    refused = step.reasons;
    if (!step.feasible()) return std::nullopt;
    Schedule schedule = unfold_step(step.folded, scenario);
    const Diagnostics problems = verify(schedule);
    if (!problems.empty())
        throw InternalError(fmt::format("the planner made an invalid schedule: {}", problems.front().message));
    const Seconds floor = busiest_compute(schedule, scenario.calibration);
    return PlannedRun{std::move(scenario), std::move(step.plan), std::move(step.folded), std::move(schedule), floor,
                      step.estimate,       std::nullopt};
}

void expect_usable(const TrainingOptions& options, const Scenario& scenario) {
    expect_own_folder(options);
    open_stream(options, scenario);
}

struct TrainingRun::State {
    PlannedRun planned;
    TrainingOptions options;
    SequenceStream stream;
    std::unique_ptr<Session> session;
    EngineWatch watch;  // goes before the session
    DeviceDescription device;
    std::string schedule_fingerprint;
    std::optional<StepTimes> times;   // of the last step, of all ranks, where others run some of them
    std::int64_t first_sequence = 0;  // of step 1; not 0 after a resume with another batch

    State(PlannedRun planned_in, TrainingOptions options_in)
        : planned(std::move(planned_in)),
          options(std::move(options_in)),
          stream(open_stream(options, planned.scenario)) {
        expect_own_folder(options);
        open_session();
        device = describe_device(options.device);
    }

    void open_session() {
        RunPart part = job() == nullptr ? RunPart{} : job()->part();
        if (planned.alone) part = {{*planned.alone}, {}};
        session = std::make_unique<Session>(planned.scenario, planned.schedule,
                                            choose_engine(options.device, planned.scenario), std::move(part));
        watch = {job(), &session->engine()};
        schedule_fingerprint = fingerprint_hex(fingerprint(to_binary(planned.schedule)));
    }

    StepTokens tokens() const {
        const auto length = static_cast<std::size_t>(planned.scenario.sequence.value);
        StepTokens tokens;
        for (std::int64_t b = 0; b < planned.scenario.batch; ++b) {
            const std::int64_t sequence =
                first_sequence + sequence_of_step(session->steps(), planned.scenario.batch, b);
            tokens.inputs.emplace_back(length), tokens.targets.emplace_back(length);
            stream.read(sequence, Tokens{0}, tokens.inputs.back());
            stream.read(sequence, Tokens{1}, tokens.targets.back());
        }
        return tokens;
    }

    RunJob* job() const { return options.device.job; }
    bool leads() const { return job() == nullptr || job()->leads(); }

    void write() const {
        std::vector<WholeParameter> parameters = session->parameters();
        if (job() != nullptr) parameters = job()->gather_parameters(std::move(parameters));
        if (!leads()) return;
        CheckpointContent content;
        content.state.step = session->steps();
        content.state.data_position = first_sequence + session->steps() * planned.scenario.batch;
        content.state.data = data_text(options, stream);
        content.state.schedule = schedule_fingerprint;
        content.state.plan = plan_text(planned.scenario);
        content.config = hf_config_text(planned.scenario.model, planned.scenario.sequence);
        for (const WholeParameter& p : parameters) content.model.push_back(float_tensor(p.name, p.shape, p.weights));
        content.optimizer = optimizer_shards(parameters, planned.scenario.policy.pp);
        write_checkpoint(options.checkpoints, content);
    }

    void read(const std::filesystem::path& path) {
        const Checkpoint checkpoint(path);
        if (checkpoint.state().data != data_text(options, stream))
            throw InputError(fmt::format("{}: the checkpoint is of other data, got {}, expected {}", path.string(),
                                         data_text(options, stream), checkpoint.state().data));
        std::vector<WholeParameter> parameters = session->blank_parameters();
        for (WholeParameter& p : parameters) {
            const std::size_t count = p.weights.size();
            p.weights = floats_of(checkpoint.model_tensor(p.name, p.shape), count);
            p.first_moment = floats_of(checkpoint.optimizer_tensor(first_moment_name(p.name), p.shape), count);
            p.second_moment = floats_of(checkpoint.optimizer_tensor(second_moment_name(p.name), p.shape), count);
        }
        session->set_parameters(parameters);
        session->set_steps(checkpoint.state().step);
        first_sequence = checkpoint.state().data_position - checkpoint.state().step * planned.scenario.batch;
    }

    void keep_times() {
        if (job() == nullptr || job()->processes() == 1) return;
        times = job()->gather_times(planned.schedule, session->engine().times());
    }

    // Of this process's ranks, as the engine's own account is.
    Bytes predicted_beyond() const {
        if (options.device.device != Device::kCuda) return {};
        const std::vector<Bytes> pinned = pinned_bytes(planned.schedule, HostAllocator::kExact);
        Bytes sum{};
        for (const Rank rank : session->local()) sum += beyond_arena_bytes(planned.scenario, pinned[index(rank)]);
        return sum;
    }

    bool checkpoint_due() const {
        if (options.checkpoints.empty()) return false;
        const std::int64_t step = session->steps();
        return step == options.steps || (options.checkpoint_every > 0 && step % options.checkpoint_every == 0);
    }
};

TrainingRun::TrainingRun(PlannedRun planned, TrainingOptions options, std::vector<std::string>& notes)
    : state_(std::make_unique<State>(std::move(planned), std::move(options))) {
    State& s = *state_;
    s.session->initialise(s.options.seed);
    if (!s.options.resume) return;
    const LatestCheckpoint latest = latest_checkpoint(s.options.checkpoints);
    if (s.job() != nullptr)
        s.job()->expect_same("the checkpoint to resume from", latest.path ? latest.path->filename().string() : "none");
    for (const std::string& reason : latest.refused) notes.push_back("not resumed from: " + reason);
    if (!latest.path) {
        notes.push_back(
            fmt::format("{}: no checkpoint to resume from: the run starts at step 1", s.options.checkpoints.string()));
        return;
    }
    s.read(*latest.path);
    notes.push_back(fmt::format("resumed from {}, after step {}", latest.path->string(), s.session->steps()));
    if (latest.manifest.state.plan != plan_text(s.planned.scenario))
        notes.push_back(fmt::format("the plan is another one: {}; the checkpoint's was {}",
                                    plan_text(s.planned.scenario), latest.manifest.state.plan));
}

TrainingRun::~TrainingRun() = default;

bool TrainingRun::done() const { return state_->session->steps() >= state_->options.steps; }
const PlannedRun& TrainingRun::planned() const { return state_->planned; }
Session& TrainingRun::session() { return *state_->session; }

StepRecord TrainingRun::step(const std::function<void(const StepRecord&)>& tell) {
    State& s = *state_;
    StepSettings settings;
    settings.clip = s.options.clip;
    settings.learning_rate = learning_rate(s.options.learning_rate, s.session->steps() + 1);
    StepRecord record;
    record.learning_rate = settings.learning_rate;
    record.report = s.session->step(s.tokens(), settings);
    const double seconds = record.report.time.value;
    const Scenario& scenario = s.planned.scenario;
    record.tokens_per_second = static_cast<double>(scenario.sequence.value * scenario.batch) / seconds;
    s.keep_times();
    if (!s.leads()) {
        if (s.checkpoint_due()) s.write();
        return record;
    }
    const StepSummary summary = summarize_step(trace());
    record.exposed_copies = (summary.mean.exposed_d2h + summary.mean.exposed_h2d) / record.report.time;
    for (const LaneTime& lane : summary.lanes)
        record.worst_exposed_copies =
            std::max(record.worst_exposed_copies, (lane.exposed_d2h + lane.exposed_h2d) / record.report.time);
    record.of_floor = s.planned.floor / record.report.time;
    record.memory = s.session->engine().memory();
    record.predicted_beyond = s.predicted_beyond();
    if (const PoolPeak* peak = summary.fullest_device()) record.device_peak = peak->live;
    for (const PoolPeak& peak : summary.host_peaks) record.host_peak += peak.live;
    if (tell) tell(record);
    if (s.checkpoint_due()) s.write();
    return record;
}

Trace TrainingRun::trace() const {
    const State& s = *state_;
    Provenance provenance;
    provenance.scenario = s.planned.scenario.name;
    provenance.scenario_fingerprint = s.planned.scenario.fingerprint;
    provenance.schedule_fingerprint = s.schedule_fingerprint;
    provenance.calibration = s.planned.scenario.calibration.name;
    const DeviceDescription& device = s.device;
    provenance.producer = device.producer;
    provenance.hardware = device.hardware;
    provenance.versions = {{"sluice", SLUICE_VERSION}};
    provenance.versions.insert(provenance.versions.end(), device.versions.begin(), device.versions.end());
    const StepTimes& times = s.times ? *s.times : s.session->engine().times();
    if (s.planned.alone)
        return measured_slice_trace(s.planned.schedule, *s.planned.alone, times, std::move(provenance));
    return measured_trace(s.planned.schedule, times, std::move(provenance));
}

void TrainingRun::replace(PlannedRun planned) {
    State& s = *state_;
    const std::vector<WholeParameter> parameters = s.session->parameters();
    const std::int64_t steps = s.session->steps();
    s.watch = {};
    s.session.reset();  // its memory goes before the next one's comes
    s.planned = std::move(planned);
    s.open_session();
    s.session->set_parameters(parameters);
    s.session->set_steps(steps);
}

void TrainingRun::limit_copies(LaneKind lane, std::optional<BytesPerSecond> limit) {
    CpuOptions& cpu = state_->options.device.cpu;
    (lane == LaneKind::kCopyOut ? cpu.copy_out_limit : cpu.copy_in_limit) = limit;
    state_->session->engine().limit_copies(lane, limit);
}

std::string step_line(const StepRecord& r, std::int64_t steps) {
    return fmt::format(
        "step {:>{}}/{}  loss {}  gradient {:.3f}  {:.0f} tokens/s  {}  exposed copies {:.1f}%  of floor {:.0f}%  "
        "peak {} device, {} host",
        r.report.step, fmt::formatted_size("{}", steps), steps,
        r.report.loss ? fmt::format("{:.4f}", *r.report.loss) : "-", r.report.gradient_norm, r.tokens_per_second,
        format(r.report.time), 100 * r.exposed_copies, 100 * r.of_floor, format(r.device_peak), format(r.host_peak));
}

std::string step_json(const StepRecord& r) {
    using Json = nlohmann::ordered_json;
    return Json{{"step", r.report.step},
                {"loss", r.report.loss ? Json(*r.report.loss) : Json(nullptr)},
                {"gradient_norm", r.report.gradient_norm},
                {"learning_rate", r.learning_rate},
                {"step_seconds", r.report.time.value},
                {"tokens_per_second", r.tokens_per_second},
                {"exposed_copy_share", r.exposed_copies},
                {"worst_exposed_copy_share", r.worst_exposed_copies},
                {"floor_share", r.of_floor},
                {"device_peak_bytes", r.device_peak.value},
                {"host_peak_bytes", r.host_peak.value},
                {"device_arena_bytes", r.memory.device.value},
                {"host_arena_bytes", r.memory.host.value},
                {"process_bytes", r.memory.process.value},
                {"device_beyond_arena_bytes", r.memory.device_beyond.value},
                {"predicted_beyond_arena_bytes", r.predicted_beyond.value}}
        .dump();
}

std::string beyond_line(const StepRecord& r) {
    const Bytes measured = r.memory.device_beyond, off = r.predicted_beyond - measured;
    if (measured.value == 0) return "";
    return fmt::format("GPU memory beside the arenas: {} predicted, {} measured ({}{:.1f} MiB)",
                       format(r.predicted_beyond), format(measured), off.value < 0 ? "-" : "+",
                       std::abs(static_cast<double>(off.value)) / static_cast<double>((1_MiB).value));
}

}  // namespace sluice

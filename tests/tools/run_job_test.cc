// What the processes of a run tell each other: threads of this one, each with its rank of a plan on the CPU, partners
// replaced by stand-ins. Numbers mean nothing then; who knows what at the end does.
#include "tools/sluice/run_job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "runtime/decoder/cpu_engine.h"
#include "runtime/stand_in.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/derived_scenario.h"
#include "tests/tools/small_training.h"
#include "tools/sluice/training_run.h"

namespace sluice {
namespace {

PlannedRun planned(const SmallTraining& training) {
    std::vector<std::string> refused;
    std::optional<PlannedRun> run = plan_run(parse_scenario(scenario_text(training), "test", "."), refused);
    if (!run) throw std::runtime_error(refused.front());
    return std::move(*run);
}

// Calls `body` for each of `processes`; returns what each threw.
std::vector<std::string> run_jobs(std::uint32_t processes, const Schedule& schedule,
                                  const std::function<void(RunJob&)>& body) {
    const TemporaryFolder folder;
    const std::string path = folder / "meeting";
    std::vector<std::string> lines(processes);
    std::vector<std::jthread> threads;
    for (std::uint32_t p = 0; p < processes; ++p)
        threads.emplace_back([&, p] {
            try {
                RunJob job({p, processes, p, {path, "", 0}}, schedule, std::chrono::milliseconds(0));
                job.run([&] { body(job); });
            } catch (const std::exception& error) {
                lines[p] = error.what();
            }
        });
    threads.clear();
    return lines;
}

std::unique_ptr<Session> session_of(RunJob& job, const PlannedRun& plan) {
    auto session = std::make_unique<Session>(plan.scenario, plan.schedule, cpu_engine({}, StandIns{}), job.part());
    session->initialise(5);
    return session;
}

StepTokens tokens(const Scenario& s) {
    const auto length = static_cast<std::size_t>(s.sequence.value);
    StepTokens all;
    all.inputs.assign(static_cast<std::size_t>(s.batch), std::vector<TokenId>(length, 7));
    all.targets = all.inputs;
    return all;
}

const SmallTraining kSharded{.sp = 2, .pp = 2, .n = 2};

TEST(RunJob, puts_parameters_of_all_processes_together) {
    const PlannedRun plan = planned(kSharded);
    Session whole(plan.scenario, plan.schedule, cpu_engine());
    whole.initialise(5);
    const std::vector<WholeParameter> expected = whole.parameters();
    for (const std::uint32_t processes : {1U, 2U, 4U}) {
        const auto lines = run_jobs(processes, plan.schedule, [&](RunJob& job) {
            const auto session = session_of(job, plan);
            const std::vector<WholeParameter> mine = session->parameters();
            const std::vector<WholeParameter> all = job.gather_parameters(mine);
            ASSERT_EQ(all.size(), job.leads() ? expected.size() : mine.size());
            for (std::size_t i = 0; i < expected.size() && job.leads(); ++i) {
                EXPECT_EQ(all[i].name, expected[i].name);
                EXPECT_EQ(all[i].shape, expected[i].shape);
                EXPECT_TRUE(all[i].weights == expected[i].weights) << all[i].name;
                EXPECT_TRUE(all[i].first_moment == expected[i].first_moment) << all[i].name;
            }
        });
        EXPECT_EQ(lines, std::vector<std::string>(processes));
    }
}

// The rank that knows the loss is of the last process; every op's time comes from the process that ran it.
TEST(RunJob, all_know_the_loss_and_process_0_all_times) {
    const PlannedRun plan = planned(kSharded);
    std::atomic<double> first{-1};
    const auto lines = run_jobs(4, plan.schedule, [&](RunJob& job) {
        const auto session = session_of(job, plan);
        const StepReport report = session->step(tokens(plan.scenario), {});
        ASSERT_TRUE(report.loss);
        if (job.leads()) first = *report.loss;
        job.rendezvous().barrier("process 0 has its loss");
        EXPECT_EQ(*report.loss, first);
        const StepTimes& mine = session->engine().times();
        const StepTimes all = job.gather_times(plan.schedule, mine);
        for (const Op& op : plan.schedule.ops) {
            const OpTimes& time = all.ops[index(op.id)];
            const bool local = op.rank == job.local().front();
            if (local) {
                EXPECT_EQ(time.begin, mine.ops[index(op.id)].begin);
            }
            if (!job.leads()) continue;
            EXPECT_GE(time.begin, all.begin);
            EXPECT_GE(time.end, time.begin);
            // One clock: the offset found is at most half a round trip.
            EXPECT_LT(time.end - all.begin, std::int64_t{60} * 1'000'000'000);
            for (const std::int64_t lap : all.laps_of(op.id)) EXPECT_GE(lap, all.begin);
        }
    });
    EXPECT_EQ(lines, std::vector<std::string>(4));
}

TEST(RunJob, what_differs_between_processes_ends_the_job) {
    const PlannedRun plan = planned(kSharded);
    const auto lines = run_jobs(2, plan.schedule, [&](RunJob& job) {
        job.expect_same("the data", "a text");
        job.expect_same("the checkpoint to resume from", job.leads() ? "step-5" : "step-4");
        job.rendezvous().barrier("end");
    });
    const std::string expected =
        "ranks 2 to 3: the checkpoint to resume from is another one here: got 'step-4', expected 'step-5' as process 0 "
        "has it";
    EXPECT_EQ(lines, (std::vector<std::string>{expected, expected}));
}

// Its run has failed, and who looks at its device does not come back before the run is stopped.
class StuckEngine : public Engine {
public:
    bool in_step() const override { return true; }
    std::optional<RunFailure> failure() const override {
        return RunFailure{FailureKind::kEnvironment, "rank 0: the disk is full"};
    }
    void stop(FailureKind, const std::string& message) override {
        EXPECT_EQ(message, failure()->message);
        stopped_ = true;
    }
    std::uint64_t ended_ops() override {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
        for (looked_at_ = true; !stopped_; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
            if (std::chrono::steady_clock::now() > until) return ADD_FAILURE() << "nobody stops the run", 0;
        return 1;
    }
    void wait_for_a_look() const {
        while (!looked_at_) std::this_thread::yield();
    }

    void read(Rank, const ParameterSlice&, ParameterState, std::span<float>) const override {}
    void write(Rank, const ParameterSlice&, ParameterState, std::span<const float>) override {}
    const std::vector<StepFindings>& run_step() override { throw std::logic_error("no steps"); }
    const StepTimes& times() const override { throw std::logic_error("no times"); }
    Seconds step_time() const override { return {}; }
    void limit_copies(LaneKind, std::optional<BytesPerSecond>) override {}
    const RankArenas& arenas(Rank) const override { throw std::logic_error("no arenas"); }
    MemoryUse memory() const override { return {}; }

private:
    std::atomic<bool> looked_at_{false}, stopped_{false};
};

// It waits for that look when it goes: as a rank's thread that ends when the run is stopped may be what keeps a look.
TEST(RunJob, an_engine_that_goes_while_somebody_looks_at_it_is_stopped) {
    const PlannedRun plan = planned(kSharded);
    StuckEngine engine;
    const auto lines = run_jobs(1, plan.schedule, [&](RunJob& job) {
        const EngineWatch watch(&job, &engine);
        engine.wait_for_a_look();
        throw EnvironmentError(engine.failure()->message);
    });
    EXPECT_TRUE(lines[0].starts_with("rank 0: the disk is full")) << lines[0];
}

TEST(RunJob, ranks_that_cannot_be_shared_out_are_refused) {
    const PlannedRun plan = planned(kSharded);
    const auto lines = run_jobs(3, plan.schedule, [](RunJob&) {});
    EXPECT_EQ(lines, std::vector<std::string>(3,
                                              "sluice run: got 4 ranks for 3 processes, expected a multiple: every "
                                              "process runs equally many"));
}

}  // namespace
}  // namespace sluice

#include "runtime/rank_program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/executor.h"
#include "runtime/issue_order.h"
#include "runtime/local_ranks.h"
#include "runtime/recording_backend.h"
#include "schedule/happens_before.h"
#include "tests/support/random_program.h"

namespace sluice {
namespace {

// The same schedule with the waits of its programs for `after`.
Schedule by_waits(const Schedule& schedule, const std::vector<RankProgram>& programs) {
    Schedule result = schedule;
    const LaneIndex lanes(schedule);
    for (const RankProgram& program : programs)
        for (const IssuedOp& op : program.ops) {
            std::vector<OpId>& after = result.ops[index(op.op)].after;
            after.clear();
            for (const LaneEvent& wait : op.waits) after.push_back(lanes.ops(program.rank, wait.lane)[wait.place - 1]);
        }
    return result;
}

bool same_order(const Schedule& a, const Schedule& b) {
    const auto of_a = HappensBefore::of(a), of_b = HappensBefore::of(b);
    return std::all_of(a.ops.begin(), a.ops.end(),
                       [&](const Op& op) { return std::ranges::equal(of_a->ended(op.id), of_b->ended(op.id)); });
}

TEST(RankProgram, WaitsOrderWhatTheScheduleOrdersAndNoneIsSpare) {
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
        const Schedule schedule = random_program(seed, {.ranks = 2, .ops = 24, .after_percent = 90});
        const std::vector<RankProgram> programs = rank_programs(schedule, all_ranks(schedule));
        const Schedule waits = by_waits(schedule, programs);
        EXPECT_TRUE(same_order(schedule, waits)) << seed;
        for (const Op& op : waits.ops)
            for (const OpId wait : op.after) {
                Schedule fewer = waits;
                std::erase(fewer.ops[index(op.id)].after, wait);
                EXPECT_FALSE(same_order(schedule, fewer)) << seed << ": op " << index(op.id);
            }
    }
}

TEST(RankProgram, OpsAreIssuedAfterWhatTheyWaitForHoweverListed) {
    ScheduleBuilder b(1);
    const BufferId x = b.device(0, 64_B), y = b.host(0, 64_B);
    b.compute(0, {}, {OpId{2}});
    b.compute(0);
    b.copy_out(0, x, y);
    const std::vector<RankProgram> programs = rank_programs(b.schedule, all_ranks(b.schedule));
    std::vector<OpId> issued;
    for (const IssuedOp& op : programs[0].ops) issued.push_back(op.op);
    EXPECT_EQ(issued, (std::vector{OpId{2}, OpId{0}, OpId{1}}));
    EXPECT_EQ(programs[0].lane_ops, (std::vector{2U, 1U}));
    EXPECT_EQ(programs[0].ops[1].waits.size(), 1U);
    EXPECT_EQ(programs[0].ops[1].waits[0], (LaneEvent{1, 1}));

    b.schedule.ops[2].after = {OpId{1}};
    EXPECT_THROW(rank_programs(b.schedule, all_ranks(b.schedule)), InputError);
}

// A stage that has posted two receives does not wait for the second before it works on what the first brings.
TEST(RankProgram, ReceivesAreIssuedWhenTheyAreNeededInTheirOrder) {
    ScheduleBuilder b(2);
    const BufferId x = b.device(0, 64_B), y = b.device(0, 64_B), z = b.device(1, 64_B);
    const OpId first = b.receive(0, 1, 64_B, {write(x)}), second = b.receive(0, 1, 64_B, {write(y)});
    const OpId other = b.compute(0), uses_first = b.compute(0, {read(x)}, {first});
    const OpId more = b.compute(0), uses_second = b.compute(0, {read(y)}, {second});
    b.send(1, 0, 64_B, {read(z)}), b.send(1, 0, 64_B, {read(z)});
    const std::vector<RankProgram> programs = rank_programs(b.schedule, all_ranks(b.schedule));
    std::vector<OpId> issued;
    for (const IssuedOp& op : programs[0].ops) issued.push_back(op.op);
    EXPECT_EQ(issued, (std::vector{other, first, uses_first, more, second, uses_second}));
    expect_issuable(b.schedule, programs);
}

// Two ranks that each send before they use what the other sends: were a receive to pass a send, both would wait.
TEST(RankProgram, NoReceivePassesAnotherMessage) {
    ScheduleBuilder b(2);
    for (const std::uint32_t r : {0U, 1U}) {
        const BufferId in = b.device(r, 64_B), out = b.device(r, 64_B);
        const std::uint32_t other = 1 - r;
        const auto send = [&] { return b.send(r, other, 64_B, {read(out)}); };
        if (r == 1) send();
        const OpId received = b.receive(r, other, 64_B, {write(in)});
        if (r == 0) send();
        b.compute(r, {read(in)}, {received});
    }
    const std::vector<RankProgram> programs = rank_programs(b.schedule, all_ranks(b.schedule));
    EXPECT_NO_THROW(expect_issuable(b.schedule, programs));
    EXPECT_EQ(programs[0].ops.front().op, OpId{0});  // the receive
}

struct Recorded {
    explicit Recorded(const Schedule& schedule) : programs(rank_programs(schedule, all_ranks(schedule))) {
        for (const RankProgram& program : programs) {
            auto backend = std::make_unique<RecordingBackend>(program);
            recordings.push_back(backend.get());
            backends.push_back(std::move(backend));
        }
        monitor.add_threads(programs.size() + 1);
    }
    RunMonitor monitor;
    std::vector<RankProgram> programs;
    std::vector<RecordingBackend*> recordings;
    std::vector<std::unique_ptr<Backend>> backends;
};

TEST(Executor, IssuesEveryOpOnceAStepInOrder) {
    const Schedule schedule = random_program(7, {.ranks = 3, .ops = 40, .after_percent = 80});
    Recorded recorded(schedule);
    Executor executor(recorded.programs, recorded.backends, recorded.monitor);
    for (int step = 0; step < 3; ++step) executor.run_step();
    EXPECT_EQ(executor.steps(), 3U);
    EXPECT_LE(executor.step_begin(), executor.step_end());
    for (std::size_t r = 0; r < 3; ++r) {
        std::vector<OpId> listed;
        for (const Op& op : schedule.ops)
            if (op.rank == id_at<Rank>(r)) listed.push_back(op.id);
        ASSERT_EQ(recorded.recordings[r]->steps().size(), 3U);
        for (std::uint64_t step = 0; step < 3; ++step) {
            const RecordingBackend::Step& found = recorded.recordings[r]->steps()[step];
            EXPECT_EQ(found.step, step);
            EXPECT_EQ(found.issued, listed);
            EXPECT_TRUE(found.finished);
        }
    }
}

// On a clock where ops take 1 each, waits keep every op behind its `after`.
TEST(Executor, RecordedClockObeysTheSchedule) {
    const Schedule schedule = random_program(3, {.ranks = 1, .ops = 60, .after_percent = 80});
    Recorded recorded(schedule);
    Executor executor(recorded.programs, recorded.backends, recorded.monitor);
    executor.run_step();
    const RecordingBackend::Step& step = recorded.recordings[0]->steps()[0];
    std::vector<double> begin(schedule.ops.size()), end(schedule.ops.size());
    for (std::size_t i = 0; i < step.issued.size(); ++i) {
        begin[index(step.issued[i])] = step.begin[i];
        end[index(step.issued[i])] = step.end[i];
    }
    for (const Op& op : schedule.ops)
        for (const OpId after : op.after) EXPECT_GE(begin[index(op.id)], end[index(after)]);
}

class FailingBackend : public Backend {
public:
    void begin_step(std::uint64_t step) override {
        if (step == 1) throw InputError("no more data");
    }
    void issue(const IssuedOp&) override {}
    void finish_step() override {}
};

void expect_failure_of_rank_1(Executor& executor) {
    executor.run_step();
    try {
        executor.run_step();
        ADD_FAILURE() << "ran";
    } catch (const InputError& error) {
        EXPECT_STREQ(error.what(), "rank 1: no more data");
    }
}

TEST(Executor, ABackendThatThrowsEndsTheRun) {
    const Schedule schedule = random_program(3, {.ranks = 2, .ops = 6});
    Recorded recorded(schedule);
    recorded.backends[1] = std::make_unique<FailingBackend>();
    Executor executor(recorded.programs, recorded.backends, recorded.monitor);
    expect_failure_of_rank_1(executor);
}

// A process of several runs some of the ranks.
TEST(Executor, AnErrorNamesTheRankAndNotItsPlaceInTheProcess) {
    const Schedule schedule = random_program(3, {.ranks = 2, .ops = 6});
    const Rank local[] = {Rank{1}};
    const std::vector<RankProgram> programs = rank_programs(schedule, local);
    std::vector<std::unique_ptr<Backend>> backends;
    backends.push_back(std::make_unique<FailingBackend>());
    RunMonitor monitor;
    Executor executor(programs, backends, monitor);
    expect_failure_of_rank_1(executor);
}

}  // namespace
}  // namespace sluice

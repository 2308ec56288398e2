// A checkpoint resumed on another plan: the same state to the bit, and a run that goes on as it would have.
#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "tests/tools/derived_scenario.h"
#include "tests/tools/small_training.h"
#include "tools/sluice/training_run.h"

namespace sluice {
namespace {

constexpr std::int64_t kBefore = 6, kAfter = 11;

PlannedRun planned(const SmallTraining& training) {
    std::vector<std::string> refused;
    std::optional<PlannedRun> run = plan_run(parse_scenario(scenario_text(training), "test", "."), refused);
    if (!run) throw std::runtime_error(refused.front());
    return std::move(*run);
}

TrainingOptions options(const std::string& checkpoints, std::int64_t steps) {
    TrainingOptions o;
    o.data = readme();
    o.steps = steps;
    o.seed = 11;
    o.learning_rate = {3e-3F, 3e-4F, 2, kBefore + kAfter};
    o.checkpoints = checkpoints;
    return o;
}

std::vector<double> losses(TrainingRun& run) {
    std::vector<double> all;
    while (!run.done()) all.push_back(run.step().report.loss.value());
    return all;
}

void expect_same_bits(const std::vector<WholeParameter>& a, const std::vector<WholeParameter>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].name, b[i].name);
        EXPECT_EQ(a[i].shape, b[i].shape);
        EXPECT_TRUE(a[i].weights == b[i].weights) << a[i].name;
        EXPECT_TRUE(a[i].first_moment == b[i].first_moment) << a[i].name;
        EXPECT_TRUE(a[i].second_moment == b[i].second_moment) << a[i].name;
    }
}

struct ResumePlan : testing::Test {
    TemporaryFolder folder;
    const std::string checkpoints = folder / "checkpoints";
    const SmallTraining first{.pp = 2, .n = 3, .layers = 4};
    std::vector<WholeParameter> state;  // after kBefore steps
    std::vector<double> expected;       // of the kAfter steps behind it, on the same plan
    std::vector<std::string> notes;

    void SetUp() override {
        TrainingRun run(planned(first), options(checkpoints, kBefore), notes);
        losses(run);
        state = run.session().parameters();
        std::filesystem::copy(checkpoints, folder / "same", std::filesystem::copy_options::recursive);
        TrainingOptions resumed = options(folder / "same", kBefore + kAfter);
        resumed.resume = true;
        TrainingRun same(planned(first), resumed, notes);
        expect_same_bits(same.session().parameters(), state);
        expected = losses(same);
        ASSERT_EQ(expected.size(), static_cast<std::size_t>(kAfter));
    }
};

// Another plan adds the same numbers in another order. The state is the same to the bit, so the next loss differs by
// the rounding of one forward: a mean over 96 tokens of values near 5 with errors of some 2^-22 each, in both
// directions: below 1e-6. Then gradients differ by about 1e-6 of their norm, and AdamW turns that into up to as much of
// a weight's step, more where a gradient is near 0 (its step is bounded by the learning rate, 3e-3 here, whatever its
// size). Ten steps, each of which may double an error that begins at 1e-8 of the loss (rounding errors of a mean
// cancel), end below 1e-5.
TEST_F(ResumePlan, OtherCutsGoOn) {
    const SmallTraining others[] = {
        {.pp = 2, .n = 5, .layers = 4},
        {.pp = 1, .n = 3, .layers = 4},
        {.pp = 4, .n = 2, .layers = 4, .placement = "none"},
        {.sp = 2, .pp = 1, .n = 3, .layers = 4},
        {.sp = 2, .pp = 2, .n = 4, .layers = 4, .placement = "recompute"},
        {.sp = 2, .pp = 1, .n = 3, .layers = 4, .kind = "ulysses"},
        {.sp = 4, .pp = 2, .n = 4, .layers = 4, .placement = "recompute", .kind = "ulysses"},
    };
    for (const SmallTraining& other : others) {
        SCOPED_TRACE(fmt::format("sp {} {} pp {} n {}", other.sp, other.kind, other.pp, other.n));
        const std::string copy = folder / fmt::format("sp{}-{}-pp{}-n{}", other.sp, other.kind, other.pp, other.n);
        std::filesystem::copy(checkpoints, copy, std::filesystem::copy_options::recursive);
        TrainingOptions resumed = options(copy, kBefore + kAfter);
        resumed.resume = true;
        notes.clear();
        TrainingRun run(planned(other), resumed, notes);
        ASSERT_EQ(notes.size(), 2U);
        EXPECT_TRUE(notes[0].ends_with("after step 6")) << notes[0];
        EXPECT_TRUE(notes[1].starts_with("the plan is another one: ")) << notes[1];
        expect_same_bits(run.session().parameters(), state);
        const std::vector<double> got = losses(run);
        ASSERT_EQ(got.size(), expected.size());
        EXPECT_NEAR(got[0], expected[0], 1e-6);
        double worst = 0;
        for (std::size_t k = 1; k < got.size(); ++k) worst = std::max(worst, std::abs(got[k] - expected[k]));
        EXPECT_LT(worst, 1e-5);
        RecordProperty(fmt::format("worst_sp{}_{}_pp{}_n{}", other.sp, other.kind, other.pp, other.n), fmt::format("{:.2e}", worst));
    }
}

// A checkpoint has whole tensors, whoever had their states: of replicas that share them out (ZeRO 1) or do not, of more
// of them or of one. Sharing out is no other cut: the same bits to the end. Another number of replicas is one.
TEST(ResumeReplicas, SharedStatesGoOnElsewhereAndComeBack) {
    const SmallTraining shared{.pp = 1, .n = 2, .dp = 2, .zero = 1, .batch = 4};
    SmallTraining whole = shared;
    whole.zero = 0;
    const SmallTraining others[] = {shared,
                                    whole,
                                    {.pp = 1, .n = 2, .batch = 4},
                                    {.pp = 1, .n = 2, .dp = 4, .zero = 1, .batch = 4},
                                    {.sp = 2, .pp = 2, .n = 2, .dp = 2, .zero = 1, .batch = 4}};
    for (const SmallTraining& from : {shared, whole}) {
        TemporaryFolder folder;
        const std::string checkpoints = folder / "checkpoints";
        std::vector<std::string> notes;
        TrainingRun run(planned(from), options(checkpoints, kBefore), notes);
        losses(run);
        const std::vector<WholeParameter> state = run.session().parameters();
        std::vector<double> expected;
        for (const SmallTraining& other : others) {
            SCOPED_TRACE(fmt::format("from zero {} to sp {} pp {} dp {} zero {}", from.zero, other.sp, other.pp, other.dp,
                                     other.zero));
            const std::string copy = folder / fmt::format("{}-{}-{}-{}", other.sp, other.pp, other.dp, other.zero);
            std::filesystem::copy(checkpoints, copy, std::filesystem::copy_options::recursive);
            TrainingOptions resumed = options(copy, kBefore + 4);
            resumed.resume = true;
            TrainingRun again(planned(other), resumed, notes);
            expect_same_bits(again.session().parameters(), state);
            const std::vector<double> got = losses(again);
            ASSERT_EQ(got.size(), 4U);
            if (expected.empty()) expected = got;
            const bool same_cut = other.sp * other.pp == 1 && other.dp == 2;
            for (std::size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], expected[k], same_cut ? 0 : 1e-5);
        }
    }
}

// Placement is no other cut: the same bits to the end.
TEST_F(ResumePlan, OtherPlacementsChangeNoBit) {
    TrainingOptions resumed = options(checkpoints, kBefore + kAfter);
    resumed.resume = true;
    SmallTraining other = first;
    other.placement = "recompute";
    TrainingRun run(planned(other), resumed, notes);
    EXPECT_EQ(losses(run), expected);
}

TEST_F(ResumePlan, PlansChangeInMidRun) {
    TrainingOptions resumed = options(checkpoints, kBefore + kAfter);
    resumed.resume = true;
    TrainingRun run(planned(first), resumed, notes);
    run.limit_copies(LaneKind::kCopyOut, BytesPerSecond{50e6});
    std::vector<double> got;
    while (!run.done()) {
        got.push_back(run.step().report.loss.value());
        if (got.size() % 4 == 0) {
            SmallTraining other = first;
            other.placement = got.size() % 8 == 0 ? "{ratio: 0.5}" : "recompute";
            run.replace(planned(other));
        }
    }
    EXPECT_EQ(got, expected);
}

TEST_F(ResumePlan, LimitsOfCopiesOutliveAPlan) {
    TrainingOptions resumed = options(checkpoints, kBefore + 2);
    resumed.resume = true;
    TrainingRun run(planned(first), resumed, notes);
    run.limit_copies(LaneKind::kCopyIn, BytesPerSecond{2e6});
    run.replace(planned(first));
    run.step();
    Seconds time{};
    Bytes bytes{};
    const Trace trace = run.trace();
    for (const TraceEvent& e : trace.events)
        if (trace.lanes[e.lane].role == LaneRole::kCopyIn) time += e.end - e.begin, bytes += e.bytes;
    ASSERT_GT(bytes, 0_B);
    EXPECT_GE(time.value, static_cast<double>(bytes.value) / 2e6) << "a copy takes at least what the limit makes of it";
}

TEST_F(ResumePlan, DataOfOtherTextAreRefused) {
    write_file(folder / "other.txt", [](std::ostream& out) { out << std::string(5000, 'a'); });
    TrainingOptions resumed = options(checkpoints, kBefore + 2);
    resumed.resume = true;
    resumed.data = folder / "other.txt";
    try {
        TrainingRun run(planned(first), resumed, notes);
        FAIL() << "was not refused";
    } catch (const std::exception& e) {
        EXPECT_NE(std::string(e.what()).find("the checkpoint is of other data, got 5000 tokens in sequences of 96"),
                  std::string::npos)
            << e.what();
    }
}

}  // namespace
}  // namespace sluice

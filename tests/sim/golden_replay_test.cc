// Replays of tests/golden/sim, whose files derive the expected times by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "schedule/schedule_text.h"
#include "sim/simulate.h"
#include "tests/sim/round_machine.h"
#include "tests/support/golden_file.h"
#include "traces/lane_time.h"
#include "traces/trace_check.h"

namespace sluice {
namespace {

constexpr double kTolerance = 1e-8;  // SimGrid takes what is less than 1e-9 s apart as one instant

using Words = std::vector<std::string>;

Words split(std::string_view line) {
    Words words;
    for (std::size_t at = 0; (at = line.find_first_not_of(' ', at)) != std::string_view::npos;) {
        const std::size_t end = std::min(line.find(' ', at), line.size());
        words.emplace_back(line.substr(at, end - at));
        at = end;
    }
    return words;
}

// The lines of a file that begin with "#!", in words.
std::vector<Words> directives(const std::string& text) {
    std::vector<Words> all;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = std::string_view(text).substr(at, end - at);
        if (line.starts_with("#! ")) all.push_back(split(line.substr(3)));
        at = end + 1;
    }
    return all;
}

std::string wait_name(Wait wait) {
    switch (wait) {
        case Wait::kNone:
            return "none";
        case Wait::kLane:
            return "lane";
        case Wait::kData:
            return "data";
        case Wait::kReuse:
            return "reuse";
        case Wait::kMatch:
            return "match";
    }
    return "?";
}

class Expectations {
public:
    explicit Expectations(const Simulation& simulation) : simulation_(simulation), trace_(simulation.trace) {
        for (std::size_t p = 0; p < trace_.pools.size(); ++p) {
            next_sample_[static_cast<std::uint32_t>(p)] = 0;
        }
    }

    void check(const Words& w) {
        ++checked_;
        if (w[0] == "op")
            check_op(w);
        else if (w[0] == "kernel")
            check_kernel(w);
        else if (w[0] == "live")
            check_live(w);
        else if (w[0] == "bubble")
            check_bubble(w);
        else if (w[0] == "stuck")
            check_stuck(w);
        else
            FAIL() << "unknown directive " << w[0];
    }

    void check_complete() const {
        EXPECT_GT(checked_, 0);
        EXPECT_EQ(simulation_.stuck.size(), stuck_) << "stuck ops that the file does not list";
        EXPECT_EQ(check_trace(trace_), "");
    }

private:
    static std::size_t id(const std::string& text) { return static_cast<std::size_t>(number(text)); }

    void check_op(const Words& w) {
        ASSERT_TRUE(w.size() == 4 || w.size() == 5 || w.size() == 6);
        ASSERT_LT(id(w[1]), trace_.events.size());
        const TraceEvent& event = trace_.events[id(w[1])];
        EXPECT_NEAR(event.begin.value, number(w[2]), kTolerance) << "begin of op " << w[1];
        EXPECT_NEAR(event.end.value, number(w[3]), kTolerance) << "end of op " << w[1];
        if (w.size() > 4) {
            EXPECT_EQ(wait_name(event.wait), w[4]) << "op " << w[1];
            EXPECT_EQ(event.blocker, w.size() > 5 ? id_at<OpId>(id(w[5])) : kNoOp) << "op " << w[1];
        }
    }

    void check_kernel(const Words& w) {
        std::size_t skip = next_kernel_[id(w[1])]++;
        for (const KernelSpan& span : trace_.kernels) {
            if (span.event != id(w[1]) || skip-- > 0) continue;
            EXPECT_NEAR(span.begin.value, number(w[2]), kTolerance);
            EXPECT_NEAR(span.end.value, number(w[3]), kTolerance);
            return;
        }
        FAIL() << "op " << w[1] << " has no further kernel";
    }

    void check_live(const Words& w) {
        const bool host = w[1][0] == 'h';
        const std::size_t owner = id(w[1].substr(1));
        const auto pool = std::find_if(trace_.pools.begin(), trace_.pools.end(),
                                       [&](const MemoryPool& p) { return p.host == host && p.owner == owner; });
        ASSERT_NE(pool, trace_.pools.end());
        const auto p = static_cast<std::uint32_t>(pool - trace_.pools.begin());
        std::vector<MemorySample> samples;
        std::copy_if(trace_.memory.begin(), trace_.memory.end(), std::back_inserter(samples),
                     [&](const MemorySample& s) { return s.pool == p; });
        ASSERT_LT(next_sample_[p], samples.size());
        const MemorySample& sample = samples[next_sample_[p]++];
        EXPECT_NEAR(sample.time.value, number(w[2]), kTolerance) << w[1];
        EXPECT_EQ(static_cast<double>(sample.live.value), number(w[3]) * kGiB) << w[1] << " at " << w[2];
    }

    void check_bubble(const Words& w) {
        const BubbleShare share = bubble_share(trace_, lane_times(trace_));
        EXPECT_NEAR(share.of_step, number(w[1]), kTolerance);
        EXPECT_NEAR(share.of_work, number(w[2]), kTolerance);
    }

    void check_stuck(const Words& w) {
        ASSERT_LT(stuck_, simulation_.stuck.size());
        const Diagnostic& d = simulation_.stuck[stuck_++];
        std::string message;
        for (std::size_t i = 2; i < w.size(); ++i) message += (i > 2 ? " " : "") + w[i];
        EXPECT_EQ(d.rule, "stuck");
        EXPECT_EQ(index(d.op), id(w[1]));
        EXPECT_EQ(d.message, message);
    }

    const Simulation& simulation_;
    const Trace& trace_;
    int checked_ = 0;
    std::size_t stuck_ = 0;
    std::map<std::size_t, std::size_t> next_kernel_;
    std::map<std::uint32_t, std::size_t> next_sample_;
};

class GoldenReplay : public testing::TestWithParam<std::string> {};

TEST_P(GoldenReplay, TimesAreThoseDerivedInTheFile) {
    const std::filesystem::path path = golden_path("sim/" + GetParam());
    const std::string text = read_file(path, 1_MiB);
    RoundMachine machine = round_machine();
    std::vector<Words> expected;
    for (const Words& words : directives(text)) {
        if (words.size() != 2 || !set(machine, words[0], number(words[1]))) expected.push_back(words);
    }
    const Schedule schedule = parse_schedule(text, path.string());
    const Simulation simulation = simulate(schedule, machine.cluster, machine.calibration);
    Expectations expectations(simulation);
    for (const Words& words : expected) expectations.check(words);
    expectations.check_complete();
}

std::vector<std::string> files() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(golden_path("sim"))) {
        if (entry.path().extension() == ".txt") names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string test_name(const testing::TestParamInfo<std::string>& info) {
    return info.param.substr(0, info.param.find('.'));
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenReplay, testing::ValuesIn(files()), test_name);

}  // namespace
}  // namespace sluice

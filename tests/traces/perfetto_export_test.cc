#include "traces/perfetto_export.h"

#include <gtest/gtest.h>

#include <cmath>
#include <locale>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "example_trace.h"
#include "golden_file.h"
#include "random_trace.h"
#include "trace_builder.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

std::string exported(const Trace& trace, const PerfettoOptions& options = {}) {
    std::ostringstream out;
    export_perfetto(out, trace, options);
    return out.str();
}

std::vector<Json> of_phase(const Json& file, const std::string& phase) {
    std::vector<Json> found;
    for (const Json& e : file.at("traceEvents"))
        if (e.at("ph") == phase) found.push_back(e);
    return found;
}

std::int64_t ns(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

using Thread = std::pair<std::int64_t, std::int64_t>;
Thread thread_of(const Json& e) { return {e.at("pid").get<std::int64_t>(), e.at("tid").get<std::int64_t>()}; }

// What the format asks of every element.
void expect_well_formed(const Json& file) {
    for (const Json& e : file.at("traceEvents")) {
        EXPECT_TRUE(e.at("ph").is_string() && e.at("name").is_string() && e.at("pid").is_number_integer()) << e;
        const std::string phase = e.at("ph");
        if (phase == "M") continue;
        EXPECT_TRUE(e.at("ts").is_number() && e.at("ts") >= 0) << e;
        EXPECT_TRUE(e.at("cat").is_string()) << e;
        if (phase == "C") {
            EXPECT_TRUE(e.at("args").at("live bytes").is_number_integer()) << e;
            continue;
        }
        EXPECT_TRUE(e.at("tid").is_number_integer()) << e;
        EXPECT_TRUE(phase != "X" || (e.at("dur").is_number() && e.at("dur") >= 0)) << e;
    }
}

// Slices of a thread, in file order: each lies inside the last one that is still open, or after it.
void expect_nested(const Json& file) {
    std::map<Thread, std::vector<std::int64_t>> open;  // ends
    for (const Json& e : of_phase(file, "X")) {
        const std::int64_t begin = ns(e.at("ts")), end = begin + ns(e.at("dur"));
        std::vector<std::int64_t>& ends = open[thread_of(e)];
        if (e.at("cat") == "kernel") {
            ASSERT_FALSE(ends.empty()) << e;
            EXPECT_LE(end, ends.front()) << e;
            EXPECT_TRUE(ends.size() == 1 || begin >= ends.back()) << e;
            ends.resize(1);
        } else {
            EXPECT_TRUE(ends.empty() || begin >= ends.front()) << e;
            ends.clear();
        }
        ends.push_back(end);
    }
}

// Every arrow has both ends, with one category and name, in slices that begin where it does.
void expect_arrows_bound(const Json& file) {
    std::set<std::tuple<Thread, std::int64_t, std::string>> slices;
    for (const Json& e : of_phase(file, "X")) slices.emplace(thread_of(e), ns(e.at("ts")), e.at("cat"));
    const std::vector<Json> starts = of_phase(file, "s"), finishes = of_phase(file, "f");
    ASSERT_EQ(starts.size(), finishes.size());
    std::set<std::int64_t> ids;
    for (std::size_t i = 0; i < starts.size(); ++i) {
        for (const char* key : {"id", "cat", "name", "pid"}) EXPECT_EQ(starts[i].at(key), finishes[i].at(key));
        EXPECT_TRUE(ids.insert(starts[i].at("id").get<std::int64_t>()).second) << starts[i];
        EXPECT_LE(ns(starts[i].at("ts")), ns(finishes[i].at("ts")));
        EXPECT_EQ(finishes[i].at("bp"), "e");
        EXPECT_TRUE(slices.contains({thread_of(starts[i]), ns(starts[i].at("ts")), "copy_out"})) << starts[i];
        EXPECT_TRUE(slices.contains({thread_of(finishes[i]), ns(finishes[i].at("ts")), "copy_in"})) << finishes[i];
    }
}

// Every process and thread that is used has one name; viewers read 0, and a thread with its process's number,
// differently.
void expect_named(const Json& file) {
    std::map<std::int64_t, int> processes;
    std::map<Thread, int> threads;
    std::set<std::int64_t> thread_ids;
    for (const Json& e : of_phase(file, "M")) {
        if (e.at("name") == "process_name") ++processes[e.at("pid").get<std::int64_t>()];
        if (e.at("name") == "thread_name") ++threads[thread_of(e)], thread_ids.insert(thread_of(e).second);
    }
    EXPECT_EQ(thread_ids.size(), threads.size());
    for (const auto& [process, names] : processes) EXPECT_EQ(names, 1) << process;
    for (const auto& [thread, names] : threads) {
        EXPECT_EQ(names, 1) << thread.second;
        EXPECT_GT(thread.first, 0);
        EXPECT_FALSE(processes.contains(thread.second)) << thread.second;
    }
    for (const Json& e : file.at("traceEvents")) {
        EXPECT_TRUE(processes.contains(e.at("pid").get<std::int64_t>())) << e;
        EXPECT_TRUE(!e.contains("tid") || threads.contains(thread_of(e))) << e;
    }
}

void expect_valid(const Json& file) {
    expect_well_formed(file);
    expect_nested(file);
    expect_arrows_bound(file);
    expect_named(file);
}

TEST(PerfettoExport, OfTheExampleIsAsItWas) { expect_golden("example.json", exported(example_trace())); }

TEST(PerfettoExport, ShowsTheExample) {
    const Json file = Json::parse(exported(example_trace()));
    expect_valid(file);
    EXPECT_EQ(of_phase(file, "X").size(), 13U + 3U);
    EXPECT_EQ(of_phase(file, "C").size(), 5U);
    EXPECT_EQ(of_phase(file, "s").size(), 1U);
    const Json offload = of_phase(file, "X")[3];  // after the first op and its two kernels
    EXPECT_EQ(offload.at("name"), "offload 0");
    EXPECT_EQ(offload.at("ts"), 2e6);
    EXPECT_EQ(offload.at("dur"), 2e6);
    EXPECT_EQ(offload.at("args"), (Json{{"op", 1},
                                        {"phase", "forward"},
                                        {"stage", 0},
                                        {"subsequence", 0},
                                        {"bytes", 2 << 20},
                                        {"flow", 1},
                                        {"waited for", "op 0 (data)"}}));
    EXPECT_EQ(file.at("otherData").at("scenario"), "example");
    EXPECT_EQ(file.at("otherData").at("not modelled 1"), "launch overheads");
}

TEST(PerfettoExport, OfRandomTracesIsValidAndComplete) {
    std::size_t arrows = 0;
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        const Trace trace = random_trace(seed, {.ranks = 1 + seed % 4, .tasks = 100});
        const std::string text = exported(trace);
        const Json file = Json::parse(text);
        expect_valid(file);
        EXPECT_EQ(of_phase(file, "X").size(), trace.events.size() + trace.kernels.size());
        EXPECT_EQ(of_phase(file, "C").size(), trace.memory.size());
        EXPECT_EQ(text, exported(trace));
        arrows += of_phase(file, "s").size();
    }
    EXPECT_GT(arrows, 100U);
}

TEST(PerfettoExport, LeavesOutWhatIsNotAskedFor) {
    const Trace trace = random_trace(5, {.ranks = 4, .tasks = 200});
    const Json file = Json::parse(exported(trace, {.kernels = false, .max_ranks = 2}));
    expect_valid(file);
    std::size_t events = 0;
    for (const TraceEvent& e : trace.events) events += index(trace.lanes[e.lane].rank) < 2 ? 1 : 0;
    EXPECT_EQ(of_phase(file, "X").size(), events);
    EXPECT_EQ(of_phase(file, "C").size(), 3U * 10U);  // two devices and the node
    EXPECT_EQ(file.at("otherData").at("shown"), "only ranks below 2");
}

TEST(PerfettoExport, EscapesLabels) {
    TraceBuilder t;
    t.lane(0, LaneRole::kCompute);
    const OpId op = t.op(0, 0, 1, {}, "a \"quoted\" \\ label\n\x01 é");
    t.kernel(op, "</script>\t", 0, 1);
    const Json file = Json::parse(exported(t.trace));
    EXPECT_EQ(of_phase(file, "X")[0].at("name"), "a \"quoted\" \\ label\n\x01 é");
    EXPECT_EQ(of_phase(file, "X")[1].at("name"), "</script>\t");
}

// 849 s and an odd nanosecond: the digits are those of the rounded nanoseconds, whatever doubles do on the way.
TEST(PerfettoExport, KeepsNanoseconds) {
    TraceBuilder t;
    t.lane(0, LaneRole::kCompute);
    t.op(0, 849.123456789, 1e9);
    t.trace.events[0].end = t.trace.step = Seconds{849.1234567904};
    const std::string text = exported(t.trace);
    EXPECT_NE(text.find("\"ts\":849123456.789,\"dur\":0.001,"), std::string::npos) << text;
}

TEST(PerfettoExport, IsTheSameInEveryLocale) {
    struct Comma : std::numpunct<char> {
        char do_decimal_point() const override { return ','; }
        char do_thousands_sep() const override { return '.'; }
        std::string do_grouping() const override { return "\3"; }
    };
    const Trace trace = random_trace(11);
    const std::string plain = exported(trace);
    const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
    const std::string abroad = exported(trace);
    std::locale::global(before);
    EXPECT_EQ(plain, abroad);
}

TEST(PerfettoExport, KeepsSlicesApartThatTouchWithinTheTolerance) {
    TraceBuilder t;
    t.lane(0, LaneRole::kCompute);
    t.op(0, 0, 1e-6);
    const OpId op = t.op(0, 0.9991e-6, 2e-6);
    t.kernel(op, "gemm", 0.9991e-6, 2.0009e-6);
    t.trace.step = Seconds{3e-6};
    expect_valid(Json::parse(exported(t.trace)));
}

TEST(PerfettoExport, OfAnEmptyTraceIsValid) { expect_valid(Json::parse(exported(Trace{}))); }

}  // namespace
}  // namespace sluice

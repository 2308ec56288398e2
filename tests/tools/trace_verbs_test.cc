// sluice simulate --trace, then show and export of the trace.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/file.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

struct TraceVerbs : testing::Test {
    TemporaryFolder folder;
    std::string trace = folder / "step.trace";
    Json summary;

    void SetUp() override {
        const Finished got = run_sluice("simulate scenarios/tiny.yaml --json --trace " + trace);
        ASSERT_EQ(got.code, 0) << got.err;
        EXPECT_EQ(got.err, "");
        summary = Json::parse(got.out);
    }

    Json exported(const std::string& options) {
        const Finished got = run_sluice("export " + trace + " " + options);
        EXPECT_EQ(got.code, 0) << got.err;
        EXPECT_EQ(got.err, "");
        return Json::parse(got.out);
    }
};

std::map<std::string, std::size_t> count_phases(const Json& picture) {
    std::map<std::string, std::size_t> count;
    for (const Json& event : picture.at("traceEvents")) ++count[event.at("ph").get<std::string>()];
    return count;
}

TEST_F(TraceVerbs, ShowSummarisesTheTrace) {
    const Finished text = run_sluice("show " + trace);
    EXPECT_EQ(text.code, 0);
    EXPECT_EQ(text.err, "");
    for (const char* part : {"simgrid replay of tiny", "4 ranks", "compute lanes", "GPU memory", "not modelled"})
        EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;

    const Finished as_json = run_sluice("show --json " + trace);
    EXPECT_EQ(as_json.code, 0);
    const Json json = Json::parse(as_json.out);
    for (const char* key : {"step_seconds", "ops", "bubble_fraction", "bubble_over_work"})
        EXPECT_EQ(json.at(key), summary.at(key)) << key;
    EXPECT_EQ(json.at("scenario"), "tiny");
    EXPECT_EQ(json.at("ranks").size(), 4U);
}

TEST_F(TraceVerbs, TimeOfEveryRankIsAttributedWhole) {
    const Json json = Json::parse(run_sluice("show --json " + trace).out);
    for (const Json& rank : json.at("ranks")) {
        double sum = 0;
        for (const auto& item : rank.items())
            if (item.key() != "rank") sum += item.value().get<double>();
        EXPECT_NEAR(sum / summary.at("step_seconds").get<double>(), 1, 1e-9) << rank;
    }
}

TEST_F(TraceVerbs, ExportHasARowPerRankAndLane) {
    const Json picture = exported("");
    std::set<std::string> processes;
    std::set<std::pair<int, int>> rows;
    for (const Json& event : picture.at("traceEvents")) {
        if (event.at("ph") == "M" && event.at("name") == "process_name")
            processes.insert(event.at("args").at("name").get<std::string>());
        if (event.at("ph") == "X") rows.insert({event.at("pid").get<int>(), event.at("tid").get<int>()});
    }
    EXPECT_GE(processes.size(), 4U);
    EXPECT_GE(rows.size(), 4U * 4U) << "compute, collective, send and receive at least";
    const auto count = count_phases(picture);
    EXPECT_GE(count.at("X"), summary.at("ops").get<std::size_t>());
    EXPECT_GT(count.at("C"), 0U) << "memory counters";
    EXPECT_EQ(count.at("s"), count.at("f")) << "every arrow from an offload ends at its reload";
    EXPECT_GT(count.at("s"), 0U);
}

TEST_F(TraceVerbs, ExportLeavesOutWhatItIsTold) {
    const std::size_t all = exported("").at("traceEvents").size();
    EXPECT_LT(exported("--no-kernels").at("traceEvents").size(), all);
    const Json one = exported("--ranks 1");
    EXPECT_LT(one.at("traceEvents").size(), all);
    EXPECT_EQ(exported("--ranks 4").at("traceEvents").size(), all);
    EXPECT_EQ(exported("--ranks 99").at("traceEvents").size(), all);

    const std::size_t spans = count_phases(exported("--no-kernels")).at("X");
    EXPECT_EQ(spans, summary.at("ops").get<std::size_t>()) << "without kernels, one span per op";
}

TEST_F(TraceVerbs, ExportToAFileSaysWhatItWrote) {
    const std::string file = folder / "step.json";
    const Finished quiet = run_sluice("export " + trace + " -o " + file);
    EXPECT_EQ(quiet.code, 0);
    EXPECT_EQ(quiet.out + quiet.err, "");
    EXPECT_EQ(Json::parse(read_file(file, 64_MiB)), exported(""));

    const Json all = Json::parse(run_sluice("export " + trace + " --json -o " + file).out);
    EXPECT_EQ(all, (Json{{"output", file}, {"events", summary.at("ops")}, {"ranks", 4}}));
    const Json two = Json::parse(run_sluice("export " + trace + " --json --ranks 2 --no-kernels -o " + file).out);
    EXPECT_EQ(two.at("ranks"), 2);
    EXPECT_EQ(two.at("events"), count_phases(Json::parse(read_file(file, 64_MiB))).at("X"));
}

TEST_F(TraceVerbs, DamagedTracesAreWrongInput) {
    const std::string whole = read_file(trace, 64_MiB);
    const std::string damaged = folder / "damaged.trace";
    for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{8}}) {
        write_file(damaged, [&](std::ostream& out) { out << whole.substr(0, size); });
        const Finished got = run_sluice("export " + damaged);
        EXPECT_EQ(got.code, 2) << size;
        EXPECT_EQ(got.out, "") << size;
        EXPECT_TRUE(got.err.starts_with(damaged + ": ")) << got.err;
    }
}

}  // namespace
}  // namespace sluice

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "scenarios/quote.h"
#include "tools/sluice/judge_case.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/verbs.h"
#include "traces/trace_file.h"
#include "validation/judge.h"

namespace sluice {
namespace {

struct ToleranceFlags {
    std::string file, step, exposed_copy, bubble, peak, node_peak, classes, some_classes;
};

// "gemm=10%,copy_out=20%".
void read_classes(const std::string& text, Tolerances& t) {
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(',', at), text.size());
        const std::string item = text.substr(at, end - at);
        const std::size_t equals = item.find('=');
        if (equals == std::string::npos || equals == 0)
            throw InputError(
                fmt::format("sluice judge: --class: got {}, expected NAME=PERCENT%, as in gemm=10%", quote(item)));
        t.classes[item.substr(0, equals)] =
            parse_percentage(std::string_view(item).substr(equals + 1), "sluice judge: --class");
        at = end + 1;
    }
}

// Over what a case says for itself.
void apply(const ToleranceFlags& flags, Tolerances& t) {
    if (!flags.file.empty()) read_tolerances(read_file(flags.file, 1_MiB), flags.file, t);
    if (!flags.step.empty()) t.step = parse_percentage(flags.step, "sluice judge: --step");
    if (!flags.exposed_copy.empty())
        t.exposed_copy = parse_percentage(flags.exposed_copy, "sluice judge: --exposed-copy");
    if (!flags.bubble.empty()) t.bubble = parse_percentage(flags.bubble, "sluice judge: --bubble");
    if (!flags.peak.empty()) t.peak = parse_percentage(flags.peak, "sluice judge: --peak");
    if (!flags.node_peak.empty()) t.node_peak = parse_percentage(flags.node_peak, "sluice judge: --node-peak");
    if (!flags.classes.empty()) t.every_class = parse_percentage(flags.classes, "sluice judge: --classes");
    if (!flags.some_classes.empty()) read_classes(flags.some_classes, t);
}

struct Judged {
    std::string name;
    std::vector<Verdict> verdicts;
    std::size_t steps = 1;
    bool passed() const {
        return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.passed; });
    }
};

void print_text(const std::vector<Judged>& all) {
    std::size_t failed = 0;
    for (const Judged& judged : all) {
        fmt::print("{}: {}, {} measured step{}\n", judged.name, judged.passed() ? "pass" : "FAIL", judged.steps,
                   judged.steps == 1 ? "" : "s");
        for (const Verdict& v : judged.verdicts)
            fmt::print("  {}  {:<26}{} (tolerance {})\n", v.passed ? "pass" : "FAIL", v.what, v.got, v.tolerance);
        failed += judged.passed() ? 0 : 1;
    }
    if (all.size() > 1) fmt::print("{} cases, {} failed\n", all.size(), failed);
}

void print_json(const std::vector<Judged>& all, bool passed) {
    nlohmann::ordered_json json{{"passed", passed}, {"cases", nlohmann::ordered_json::array()}};
    for (const Judged& judged : all) {
        nlohmann::ordered_json verdicts = nlohmann::ordered_json::array();
        for (const Verdict& v : judged.verdicts)
            verdicts.push_back({{"what", v.what}, {"passed", v.passed}, {"got", v.got}, {"tolerance", v.tolerance}});
        json["cases"].push_back({{"case", judged.name},
                                 {"passed", judged.passed()},
                                 {"measured_steps", judged.steps},
                                 {"verdicts", std::move(verdicts)}});
    }
    fmt::print("{}\n", json.dump(2));
}

Tolerances default_tolerances() {
    Tolerances t;
    t.step = 0.1, t.exposed_copy = 0.02, t.peak = 0;
    return t;
}

Judged judge_files(const std::string& predicted_path, const std::vector<std::string>& paths,
                   const ToleranceFlags& flags) {
    Tolerances tolerances = default_tolerances();
    apply(flags, tolerances);
    const Trace predicted = read_trace(predicted_path);
    std::vector<Trace> measured;
    for (const std::string& path : paths) {
        measured.push_back(read_trace(path));
        require_same_schedule(predicted, predicted_path, measured.back(), path);
    }
    return {predicted_path, judge(compare(predicted, measured), tolerances), measured.size()};
}

std::vector<Judged> judge_folder(const std::string& folder, const ToleranceFlags& flags) {
    std::vector<Judged> all;
    for (const std::filesystem::path& path : find_cases(folder)) {
        Tolerances tolerances = default_tolerances();
        const JudgeCase found = read_case(path, tolerances);
        apply(flags, tolerances);
        all.push_back({found.name, judge(compare(found.predicted, found.measured), tolerances), found.measured.size()});
    }
    return all;
}

}  // namespace

int judge_verb(const Arguments& arguments) {
    std::string path;
    std::vector<std::string> measured;
    ToleranceFlags flags;
    bool json = false;
    const Usage usage{
        "judge",
        "Holds a prediction against measured steps: exit code 1 when something is off by more than its tolerance.\n"
        "PREDICTED is a trace, or a folder with recorded cases (docs/validation.md).",
        "PREDICTED",
        &path,
        {{"--step", "PERCENT", "how far the step may be off (10%)", &flags.step},
         {"--exposed-copy", "PERCENT", "the same of the exposed copies' share of the step, a difference (2%)",
          &flags.exposed_copy},
         {"--bubble", "PERCENT", "the same of the bubble's share of the step (not judged)", &flags.bubble},
         {"--peak", "PERCENT", "the same of the most live bytes of every memory pool (0%: to the byte)", &flags.peak},
         {"--node-peak", "PERCENT", "the same of what the ranks of a node pin together (as --peak)", &flags.node_peak},
         {"--classes", "PERCENT", "the same of every op class with 1% of the busy time or more (not judged)",
          &flags.classes},
         {"--class", "NAME=PERCENT", "the same of one op class, or of several: gemm=10%,copy_out=20%",
          &flags.some_classes},
         {"--tolerances", "FILE", "lines such as \"step 10%\" and \"class gemm 10%\"", &flags.file},
         {"--json", "", "every verdict as JSON", nullptr, &json}},
        "  sluice judge predicted.trace measured.trace --step 5% --classes 20%\n"
        "  sluice judge validation/cases\n"
        "  sluice judge tests/golden/traces/example.sltrace tests/golden/traces/example.sltrace",
        "",
        nullptr,
        "MEASURED",
        &measured,
        false};
    if (!parse_arguments(usage, arguments)) return 0;
    const bool folder = std::filesystem::is_directory(path);
    if (folder && !measured.empty())
        throw InputError(
            fmt::format("sluice judge: {} is a folder of cases, which have their measured steps; got {} too", path,
                        measured.front()));
    if (!folder && measured.empty())
        throw InputError("sluice judge: MEASURED is required beside a predicted trace; see sluice judge --help");

    const std::vector<Judged> all =
        folder ? judge_folder(path, flags) : std::vector{judge_files(path, measured, flags)};
    const bool passed = std::all_of(all.begin(), all.end(), [](const Judged& j) { return j.passed(); });
    json ? print_json(all, passed) : print_text(all);
    return passed ? 0 : 1;
}

}  // namespace sluice

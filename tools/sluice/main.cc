// sluice VERB ...: the only place that turns exceptions into exit codes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "base/error.h"
#include "base/nearest_name.h"
#include "tools/sluice/verbs.h"

namespace sluice {
namespace {

struct Verb {
    std::string_view name;
    int (*run)(const Arguments&);
    std::string_view what;
};

constexpr std::array kVerbs{
    Verb{"simulate", simulate_verb, "lower, verify and replay a scenario; print what the step costs"},
    Verb{"plan", plan_verb, "choose degrees, subsequences and partition where the scenario says auto"},
    Verb{"explain", explain_verb, "say what bounds the step, and what more of each resource would buy"},
    Verb{"run", run_verb, "train a scenario for real on this machine"},
    Verb{"lower", lower_verb, "write the schedule of a scenario"},
    Verb{"slice", slice_verb, "write one rank's part of a schedule, to be run alone"},
    Verb{"check", check_verb, "verify a schedule"},
    Verb{"show", show_verb, "print a schedule (as text, or a grid) or the summary of a trace"},
    Verb{"export", export_verb, "turn a trace into Chrome/Perfetto JSON"},
    Verb{"profile", profile_verb, "measure this machine: a calibration and a cluster file for it"},
    Verb{"compare", compare_verb, "lay a predicted step beside measured ones and say where the error is from"},
    Verb{"judge", judge_verb, "hold a prediction against measured steps within tolerances"},
    Verb{"fit", fit_verb, "correct a calibration by measured steps"},
};

void print_help(std::FILE* out) {
    fmt::print(out,
               "sluice plans and simulates subsequence pipelines for training on very long sequences.\n\n"
               "usage: sluice VERB ARGUMENTS      (sluice VERB --help has options and examples)\n\n");
    for (const Verb& verb : kVerbs) fmt::print(out, "  {:<10}{}\n", verb.name, verb.what);
    fmt::print(out,
               "\nexample: sluice simulate scenarios/tiny.yaml\n\n"
               "exit codes: 0 yes; 1 the check said no, or the scenario does not fit; 2 bad usage or input; "
               "3 the machine failed, or a bug\n");
}

int dispatch(int argc, char** argv) {
    const std::string_view wanted = argc > 1 ? argv[1] : "--help";
    if (wanted == "--help" || wanted == "-h" || wanted == "help") return print_help(stdout), argc > 1 ? 0 : 2;
    if (wanted == "--version") return fmt::print("sluice {}\n", SLUICE_VERSION), 0;
    for (const Verb& verb : kVerbs)
        if (verb.name == wanted) return verb.run(Arguments(argv + 2, argv + argc));
    std::array<std::string_view, kVerbs.size()> names;
    std::transform(kVerbs.begin(), kVerbs.end(), names.begin(), [](const Verb& verb) { return verb.name; });
    const std::string nearest = nearest_name(wanted, names);
    throw InputError(fmt::format("sluice: unknown verb '{}', expected one of {}{}", wanted, fmt::join(names, ", "),
                                 nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
}

// A full disk shows when the last buffer goes out: nobody may take half a result for a whole one.
void flush_stdout() {
    const bool failed = std::fflush(stdout) != 0;
    if (failed || std::ferror(stdout) != 0)
        throw EnvironmentError(fmt::format("stdout: cannot write: {}", std::strerror(errno)));
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
    try {
        const int code = sluice::dispatch(argc, argv);
        sluice::flush_stdout();
        return code;
    } catch (const sluice::InputError& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 2;
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "sluice: this machine has not enough memory for a schedule of this size\n");
        return 3;
    } catch (const std::exception& e) {
        fmt::print(stderr, "{}\n", e.what());
        return 3;
    }
}

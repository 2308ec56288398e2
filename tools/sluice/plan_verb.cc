#include <fmt/format.h>

#include "tools/sluice/answer_max_length.h"
#include "tools/sluice/choose_plan.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/verbs.h"

namespace sluice {

namespace {

int print_max_length(const Scenario& scenario, bool json) {
    MaxLengthAnswer answer;
    {
        ProgressLine progress;
        answer = answer_max_length(scenario, progress);
    }
    fmt::print("{}", json ? max_length_json(answer) + "\n" : max_length_text(scenario, answer));
    return answer.length.longest ? 0 : 1;
}

}  // namespace

int plan_verb(const Arguments& arguments) {
    std::string path;
    bool explain = false, longest = false, json = false;
    const Usage usage{"plan",
                      "Makes the choices that a scenario leaves open (auto): sp, pp, n, partition.",
                      "SCENARIO",
                      &path,
                      {{"--explain", "", "say of every candidate why it was not chosen", nullptr, &explain},
                       {"--max-length", "", "find the longest sequence that fits, and what fails at the next length",
                        nullptr, &longest},
                       {"--json", "", "print all candidates as JSON, the best first", nullptr, &json}},
                      "  sluice plan scenarios/auto-gpt7b-1m-a100x32.yaml\n"
                      "  sluice plan scenarios/auto-gpt7b-1m-a100x32.yaml --explain\n"
                      "  sluice plan scenarios/tiny.yaml --max-length"};
    if (!parse_arguments(usage, arguments)) return 0;

    const Scenario scenario = read_scenario(path);
    if (longest) return print_max_length(scenario, json);
    Choice choice;
    {
        ProgressLine progress;
        choice = choose_plan(scenario, progress);
    }
    fmt::print("{}", json ? choice_json(choice) + "\n" : choice_text(scenario, choice, explain));
    return choice.found() ? 0 : 1;
}

}  // namespace sluice

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "planner/lower.h"
#include "tools/sluice/answer_changes.h"
#include "tools/sluice/answer_max_length.h"
#include "tools/sluice/answer_run.h"
#include "tools/sluice/choose_plan.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/parse_token_count.h"
#include "tools/sluice/verbs.h"

namespace sluice {

namespace {

// What is asked of a plan besides the choices.
struct PlanAnswer {
    Choice choice;
    std::vector<Change> changes;   // when nothing fits
    std::optional<RunAnswer> run;  // when something does
};

PlanAnswer answer_plan(const Scenario& scenario, std::optional<Tokens> tokens) {
    ProgressLine progress;
    PlanAnswer answer;
    answer.choice = choose_plan(scenario, progress);
    if (answer.choice.found() && tokens) {
        const Scenario& best = answer.choice.scenario();
        answer.run = answer_run(best, lower(best), answer.choice.candidates.front().replayed, *tokens);
    }
    if (!answer.choice.found()) {
        SmallestChangeOptions options;
        if (progress.active())
            options.progress = [&](std::string_view what, double fraction) {
                progress.show(fmt::format("nothing fits; smallest change: {}", what), fraction);
            };
        answer.changes = smallest_changes(scenario, options);
    }
    return answer;
}

void print_plan(const Scenario& scenario, const PlanAnswer& answer, bool explain, bool json) {
    const Choice& choice = answer.choice;
    if (!json) {
        fmt::print("{}{}{}", choice_text(scenario, choice, explain),
                   answer.run ? run_text(choice.scenario(), *answer.run) : "",
                   choice.found() ? "" : changes_text(answer.changes));
        return;
    }
    auto object = nlohmann::ordered_json::parse(choice_json(choice));
    if (answer.run) object["run"] = nlohmann::ordered_json::parse(run_json(choice.scenario(), *answer.run));
    if (!choice.found()) object["changes"] = nlohmann::ordered_json::parse(changes_json(answer.changes));
    fmt::print("{}\n", object.dump(2));
}

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
    std::string path, tokens_text;
    bool explain = false, longest = false, json = false;
    const Usage usage{
        "plan",
        "Makes the choices that a scenario leaves open (auto): sp, pp, dp, zero, n, partition, placement, order.",
        "SCENARIO",
        &path,
        {{"--explain", "", "say of every candidate why it was not chosen", nullptr, &explain},
         {"--max-length", "", "find the longest sequence that fits, and what fails at the next length", nullptr,
          &longest},
         {"--tokens", "COUNT", "what a training run of so many tokens costs, too: 500M, 300B, 1.5T", &tokens_text},
         {"--json", "", "print all candidates as JSON, the best first", nullptr, &json}},
        "  sluice plan scenarios/auto-gpt7b-1m-a100x32.yaml\n"
        "  sluice plan scenarios/auto-gpt7b-1m-a100x32.yaml --explain\n"
        "  sluice plan scenarios/tiny.yaml --max-length\n"
        "  sluice plan scenarios/tiny.yaml --tokens 1B"};
    if (!parse_arguments(usage, arguments)) return 0;

    if (longest && !tokens_text.empty())
        throw InputError("sluice plan: --tokens and --max-length: the run is that of one length, expected one of them");
    const std::optional<Tokens> tokens = token_count(usage.verb, tokens_text);

    const Scenario scenario = read_scenario(path);
    if (longest) return print_max_length(scenario, json);
    const PlanAnswer answer = answer_plan(scenario, tokens);
    print_plan(scenario, answer, explain, json);
    return answer.choice.found() ? 0 : 1;
}

}  // namespace sluice

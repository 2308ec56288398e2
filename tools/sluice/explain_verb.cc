#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "tools/sluice/answer_explain.h"
#include "tools/sluice/answer_run.h"
#include "tools/sluice/parse_arguments.h"
#include "tools/sluice/parse_token_count.h"
#include "tools/sluice/verbs.h"

namespace sluice {

int explain_verb(const Arguments& arguments) {
    std::string path, tokens_text;
    bool json = false;
    const Usage usage{
        "explain",
        "Says what bounds the step of a scenario, and what 10% more of each resource would buy after planning again.",
        "SCENARIO",
        &path,
        {{"--tokens", "COUNT", "what a training run of so many tokens costs, too: 500M, 300B, 1.5T", &tokens_text},
         {"--json", "", "print it as JSON", nullptr, &json}},
        "  sluice explain scenarios/tiny.yaml\n"
        "  sluice explain scenarios/tiny.yaml --tokens 1B --json"};
    if (!parse_arguments(usage, arguments)) return 0;
    const std::optional<Tokens> tokens = token_count(usage.verb, tokens_text);

    const Scenario scenario = read_scenario(path);
    Explanation explanation;
    {
        ProgressLine progress;
        explanation = explain_step(scenario, progress);
    }
    const bool fits = explanation.refusals.empty();
    std::optional<RunAnswer> run;
    if (fits && tokens) run = answer_run(explanation.scenario, explanation.lowered, explanation.summary.step, *tokens);
    if (json) {
        auto object = nlohmann::ordered_json::parse(explanation_json(explanation));
        if (run) object["run"] = nlohmann::ordered_json::parse(run_json(explanation.scenario, *run));
        fmt::print("{}\n", object.dump(2));
    } else {
        fmt::print("{}{}", explanation_text(explanation), run ? run_text(explanation.scenario, *run) : "");
    }
    return fits ? 0 : 1;
}

}  // namespace sluice

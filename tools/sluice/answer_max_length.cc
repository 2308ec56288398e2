#include "tools/sluice/answer_max_length.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format_units.h"
#include "planner/lower.h"
#include "scenarios/policy_names.h"
#include "tools/sluice/choose_plan.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// The same pool in the step that fits, if that has as many.
const MemoryNeed* counterpart(const MemoryNeed& need, const MaxLength& length) {
    if (!length.longest || length.longest->memory.size() != length.failing->memory.size()) return nullptr;
    return &length.longest->memory[static_cast<std::size_t>(&need - length.failing->memory.data())];
}

std::string kind_text(const MemoryNeed& need) {
    const std::optional<BufferKind> kind = largest_kind(need);
    if (!kind) return "";
    return fmt::format("; most of it {}, {}", name(*kind), format(need.by_kind[static_cast<std::size_t>(*kind)]));
}

std::string grown_text(const MemoryNeed& need, const MaxLength& length) {
    const MemoryNeed* before = counterpart(need, length);
    const std::optional<BufferKind> kind = before != nullptr ? largest_kind(need, before) : std::nullopt;
    return kind ? fmt::format("; {} grew most", name(*kind)) : "";
}

std::string failure_text(const MaxLength& length) {
    const PlacedCandidate& failing = *length.failing;
    const MemoryNeed* worst = worst_need(failing.memory);
    if (worst == nullptr) return failing.reason;
    return fmt::format("{}: {} of {} usable, {} too much{}{}", worst->where(), format(worst->needed),
                       format(worst->usable), format(worst->excess()), kind_text(*worst), grown_text(*worst, length));
}

Json choices_json(const Scenario& s) {
    return {{"tokens", s.sequence.value},
            {"sp", s.policy.sp},
            {"pp", s.policy.pp},
            {"dp", s.policy.dp},
            {"zero", static_cast<int>(s.policy.zero)},
            {"n", s.policy.n},
            {"partition", name(s.policy.partition.kind)}};
}

Json failure_json(const MaxLength& length) {
    const PlacedCandidate& failing = *length.failing;
    Json json = choices_json(failing.candidate.scenario);
    json["reason"] = failing.reason;
    json["lacking"] = Json::array();
    for (const MemoryNeed& need : failing.memory) {
        if (need.excess() == 0_B) continue;
        const bool device = need.space == Space::kDevice;
        const std::optional<BufferKind> kind = largest_kind(need);
        const MemoryNeed* before = counterpart(need, length);
        const std::optional<BufferKind> grew = before != nullptr ? largest_kind(need, before) : std::nullopt;
        json["lacking"].push_back({{"memory", device ? "gpu" : "host"},
                                   {device ? "stage" : "node", need.place},
                                   {"numa_node", need.numa ? Json(*need.numa) : Json(nullptr)},
                                   {"first_rank", need.first_rank},
                                   {"last_rank", need.last_rank},
                                   {"needed_bytes", need.needed.value},
                                   {"usable_bytes", need.usable.value},
                                   {"largest_kind", kind ? Json(name(*kind)) : Json(nullptr)},
                                   {"grew_most", grew ? Json(name(*grew)) : Json(nullptr)}});
    }
    return json;
}

}  // namespace

MaxLengthAnswer answer_max_length(const Scenario& scenario, ProgressLine& progress) {
    if (scenario.policy.partition.kind == PartitionKind::kList)
        throw InputError(
            fmt::format("sluice plan: --max-length: scenario {} lists its lengths, which give the sequence; "
                        "expected partition flops, cost, equal or auto",
                        scenario.name));
    MaxLengthOptions options;
    if (progress.active())
        options.progress = [&](std::string_view what, double fraction) {
            progress.show(fmt::format("longest length: {}", what), fraction);
        };
    MaxLengthAnswer answer;
    answer.length = max_length(scenario, options);
    if (answer.length.longest) {
        const Scenario& longest = answer.length.longest->candidate.scenario;
        progress.show("longest length: replay");
        const PlannedStep step = plan_step(longest);
        answer.estimate = step.estimate;
        answer.replayed = replayed_step(step, longest);
    }
    return answer;
}

std::string max_length_text(const Scenario& scenario, const MaxLengthAnswer& answer) {
    const MaxLength& length = answer.length;
    std::string text = fmt::format("{}: {}, longest sequence on {} x {} of {}\n", scenario.name, scenario.model.name,
                                   scenario.cluster.gpus(), scenario.cluster.gpu.name, scenario.cluster.name);
    if (length.longest)
        text += fmt::format("  longest          {} tokens, {}: step {} replayed, {} by the cost model\n",
                            length.longest->candidate.scenario.sequence.value, length.longest->candidate.label(),
                            format(answer.replayed), format(answer.estimate));
    else
        text += "  longest          none fits\n";
    if (length.failing)
        text += fmt::format("  first failure    {} tokens, {}: {}\n", length.failing->candidate.scenario.sequence.value,
                            length.failing->candidate.label(), failure_text(length));
    else if (length.longest)
        text += "  first failure    none: scenarios are no longer than this\n";
    else
        text += "  first failure    the choices suit the model at no length; --explain says why\n";
    return text + fmt::format("  lengths          multiples of {} tokens; {} placements tried\n", length.step.value,
                              length.placed);
}

std::string max_length_json(const MaxLengthAnswer& answer) {
    const MaxLength& length = answer.length;
    Json json{{"feasible", length.longest.has_value()},
              {"step_tokens", length.step.value},
              {"longest", nullptr},
              {"first_failure", nullptr},
              {"placements", length.placed}};
    if (length.longest) {
        json["longest"] = choices_json(length.longest->candidate.scenario);
        json["longest"]["estimate_seconds"] = answer.estimate.value;
        json["longest"]["replayed_seconds"] = answer.replayed.value;
    }
    if (length.failing) json["first_failure"] = failure_json(length);
    return json.dump(2);
}

}  // namespace sluice

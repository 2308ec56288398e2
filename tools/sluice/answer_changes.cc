#include "tools/sluice/answer_changes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/format_units.h"
#include "scenarios/policy_names.h"

namespace sluice {

std::string changes_text(const std::vector<Change>& changes) {
    std::string text = "  the smallest change that fits, each alone:\n";
    for (const Change& change : changes) {
        if (!change.fit)
            text += fmt::format("    {:<19}does not help alone: {}\n", change.what, change.how);
        else
            text += fmt::format("    {:<19}{}: {}, step {} by the cost model\n", change.what, change.how,
                                change.fit->candidate.label(), format(change.estimate));
    }
    return text;
}

std::string changes_json(const std::vector<Change>& changes) {
    using Json = nlohmann::ordered_json;
    Json list = Json::array();
    for (const Change& change : changes) {
        Json json{{"change", change.what}, {"helps", change.fit.has_value()}, {"how", change.how}, {"plan", nullptr}};
        if (change.fit) {
            const Scenario& s = change.fit->candidate.scenario;
            json["plan"] = {{"nodes", s.cluster.nodes},
                            {"gpu_memory_bytes", s.cluster.gpu.memory.value},
                            {"host_memory_bytes", s.cluster.host.memory.value},
                            {"tokens", s.sequence.value},
                            {"sp", s.policy.sp},
                            {"pp", s.policy.pp},
                            {"dp", s.policy.dp},
                            {"n", s.policy.n},
                            {"partition", name(s.policy.partition.kind)},
                            {"estimate_seconds", change.estimate.value}};
        }
        list.push_back(std::move(json));
    }
    return list.dump();
}

}  // namespace sluice

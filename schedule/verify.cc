#include "schedule/verify.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "schedule/topological_order.h"
#include "schedule/verify_rules.h"

namespace sluice {
namespace {

void check_memory(const Schedule& schedule, LaneIndex lanes, Diagnostics& found) {
    const auto order = topological_order(schedule, lanes);
    if (!order) return;  // check_cycles has said so
    HappensBefore before(schedule, std::move(lanes));
    for (const OpId op : *order) before.enter(schedule.ops[index(op)]);
    const BufferUses uses(schedule, before.lanes());
    check_accesses(schedule, before, *order, uses, found);
    check_places(schedule, before, *order, uses, found);
}

void check_whole(const Schedule& schedule, Diagnostics& found) {
    LaneIndex lanes(schedule);
    {
        const std::vector<OpId> partners = match_partners(schedule, lanes, found);
        check_cycles(schedule, lanes, partners, found);
    }
    check_memory(schedule, std::move(lanes), found);
    check_capacities(schedule, found);
}

}  // namespace

void report(Diagnostics& found, Rule rule, OpId op, BufferId buffer, std::string message) {
    found.push_back({std::string(kRuleNames[static_cast<std::size_t>(rule)]), op, buffer, std::move(message)});
}

Diagnostics verify(const Schedule& schedule) {
    Diagnostics found;
    check_structure(schedule, found);
    if (found.empty()) check_ops(schedule, found);
    if (found.empty()) check_whole(schedule, found);
    std::stable_sort(found.begin(), found.end(), [](const Diagnostic& a, const Diagnostic& b) {
        return std::tie(a.op, a.rule, a.buffer) < std::tie(b.op, b.rule, b.buffer);
    });
    return found;
}

}  // namespace sluice

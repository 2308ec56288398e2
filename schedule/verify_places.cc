// Rule 5: buffers that share bytes are ordered.
//
// Buffers enter their arena in the order of their first use. Whoever enters needs to be compared with the latest tenant
// of each of its bytes only: "every use of A happens before every use of B" is transitive. So the work is near linear,
// and exact: a broken pair with tenants between is broken at one of the steps between them.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "schedule/describe.h"
#include "schedule/tenant_map.h"
#include "schedule/verify_rules.h"

namespace sluice {
namespace {

class PlaceCheck {
public:
    PlaceCheck(const Schedule& schedule, const HappensBefore& before, std::span<const OpId> order,
               const BufferUses& uses, Diagnostics& found)
        : schedule_(schedule),
          before_(before),
          uses_(uses),
          found_(found),
          moment_(order.size()),
          tenants_(schedule.ranks.size() * 2),
          residents_(schedule.ranks.size() * 2) {
        for (std::size_t i = 0; i < order.size(); ++i) moment_[index(order[i])] = static_cast<std::uint32_t>(i);
    }

    void run() {
        for (const Buffer& buffer : schedule_.buffers)
            if (buffer.offset && buffer.persistent) enter_resident(buffer);
        for (const BufferId tenant : tenants_by_first_use()) enter(schedule_.buffers[index(tenant)]);
    }

private:
    struct Unordered {
        OpId earlier, later;  // a last use of the old tenant, a first use of the new one
    };

    static std::size_t arena(const Buffer& buffer) {
        return index(buffer.rank) * 2 + static_cast<std::size_t>(buffer.space);
    }
    static Bytes begin(const Buffer& buffer) { return *buffer.offset; }
    static Bytes end(const Buffer& buffer) { return *buffer.offset + buffer.bytes; }

    OpId op_at(const Buffer& buffer, std::uint32_t lane, std::uint32_t place) const {
        return before_.lanes().ops(buffer.rank, lane)[place - 1];
    }

    // The op that brings a buffer into its arena.
    OpId first_use(const Buffer& buffer) const {
        OpId result = kNoOp;
        for (const LaneUse& use : uses_.of(buffer.id)) {
            const OpId op = op_at(buffer, use.lane, use.first);
            if (result == kNoOp || moment_[index(op)] < moment_[index(result)]) result = op;
        }
        return result;
    }

    std::vector<BufferId> tenants_by_first_use() const {
        std::vector<std::pair<std::uint32_t, BufferId>> order;
        for (const Buffer& buffer : schedule_.buffers)
            if (buffer.offset && !buffer.persistent && !uses_.of(buffer.id).empty())
                order.emplace_back(moment_[index(first_use(buffer))], buffer.id);
        std::sort(order.begin(), order.end());
        std::vector<BufferId> result;
        result.reserve(order.size());
        for (const auto& [moment, buffer] : order) result.push_back(buffer);
        return result;
    }

    // A persistent buffer holds its bytes before, during and after the step.
    void enter_resident(const Buffer& buffer) {
        report_residents(buffer);
        residents_[arena(buffer)].take_over(begin(buffer), end(buffer), buffer.id);
    }

    // The first one stands for the rest: a buffer laid over a thousand weights is one mistake.
    void report_residents(const Buffer& buffer) {
        BufferId other = kNoBuffer;
        residents_[arena(buffer)].for_each(begin(buffer), end(buffer), [&](BufferId resident) {
            if (other == kNoBuffer) other = resident;
        });
        if (other == kNoBuffer) return;
        report(found_, Rule::kOverlap, first_use(buffer), buffer.id,
               fmt::format("{} shares bytes with {}, expected none: the latter is persistent", placed(buffer),
                           placed(schedule_.buffers[index(other)])));
    }

    void enter(const Buffer& buffer) {
        report_residents(buffer);
        BufferId last = kNoBuffer;
        TenantMap& tenants = tenants_[arena(buffer)];
        tenants.for_each(begin(buffer), end(buffer), [&](BufferId other) {
            if (other != last) compare(schedule_.buffers[index(other)], buffer);
            last = other;
        });
        tenants.take_over(begin(buffer), end(buffer), buffer.id);
    }

    void compare(const Buffer& old, const Buffer& next) {
        const auto broken = first_unordered(old, next);
        if (!broken) return;
        const auto [earlier, later] = *broken;
        const bool copy = is_copy(earlier);
        const bool lives_overlap = earlier == later || before_(later, earlier);
        report(
            found_, copy ? Rule::kReuseBeforeCopy : Rule::kOverlap, later, next.id,
            fmt::format(
                "{} starts to use {} while {} may still {} {}, expected {}", describe(schedule_.ops[index(later)]),
                placed(next), describe(schedule_.ops[index(earlier)]), copy ? "copy" : "use", placed(old),
                lives_overlap ? "bytes of its own: both live at once"
                              : fmt::format("op {} after op {} by lane order or after", index(later), index(earlier))));
    }

    bool is_copy(OpId op) const { return std::holds_alternative<Copy>(schedule_.ops[index(op)].work); }

    // A copy's use first, since its hazard has a name; then the first op that is too early.
    std::optional<Unordered> first_unordered(const Buffer& old, const Buffer& next) const {
        std::optional<Unordered> result;
        const auto rank = [&](const Unordered& pair) {
            return std::pair(!is_copy(pair.earlier), moment_[index(pair.later)]);
        };
        for (const LaneUse& last : uses_.of(old.id))
            for (const LaneUse& first : uses_.of(next.id)) {
                const Unordered pair{op_at(old, last.lane, last.last), op_at(next, first.lane, first.first)};
                if (!before_(pair.earlier, pair.later) && (!result || rank(pair) < rank(*result))) result = pair;
            }
        return result;
    }

    static std::string placed(const Buffer& buffer) {
        return fmt::format("{} at bytes {}..{}", describe(buffer), begin(buffer).value, end(buffer).value - 1);
    }

    const Schedule& schedule_;
    const HappensBefore& before_;
    const BufferUses& uses_;
    Diagnostics& found_;
    std::vector<std::uint32_t> moment_;  // by op: position in the topological order
    std::vector<TenantMap> tenants_;     // by rank and space
    std::vector<TenantMap> residents_;   // the same for persistent buffers
};

}  // namespace

void check_places(const Schedule& schedule, const HappensBefore& before, std::span<const OpId> order,
                  const BufferUses& uses, Diagnostics& found) {
    PlaceCheck(schedule, before, order, uses, found).run();
}

}  // namespace sluice

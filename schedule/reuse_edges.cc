#include "schedule/reuse_edges.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/buffer_lives.h"
#include "schedule/buffer_uses.h"
#include "schedule/happens_before.h"
#include "schedule/tenant_map.h"

namespace sluice {
namespace {

// The last use on one lane of bytes that a buffer takes over.
struct Leaver {
    std::uint32_t lane, place;
};

class ReuseEdges {
public:
    explicit ReuseEdges(Schedule& schedule)
        : schedule_(schedule),
          before_(schedule, LaneIndex(schedule)),
          uses_(schedule, before_.lanes()),
          tenants_(schedule.ranks.size() * 2),
          entered_(schedule.buffers.size(), false),
          leavers_(schedule.buffers.size()) {}

    // One pass in listed order: an op's clock is final, added edges included, before any later op asks for it.
    void run() {
        for (Op& op : schedule_.ops) {
            for (const OpId earlier : op.after)
                SLUICE_CHECK(earlier < op.id, "memory placement needs ops listed after everything they wait for");
            before_.enter(op);
            add_edges(op, missing(op));
        }
    }

private:
    const LaneIndex& lanes() const { return before_.lanes(); }

    OpId op_of(const Op& op, const Leaver& leaver) const { return lanes().ops(op.rank, leaver.lane)[leaver.place - 1]; }

    // Ops that `op` has to wait for and does not yet, at most one per lane, by lane.
    std::vector<Leaver> missing(const Op& op) {
        std::vector<Leaver> result;
        for (const Access& access : op.accesses) {
            if (!starts_on_its_lane(op, access.buffer)) continue;
            enter_arena(access.buffer);
            for (const Leaver& leaver : leavers_[index(access.buffer)])
                if (leaver.place > before_.ended(op.id)[leaver.lane]) keep_latest(result, leaver);
        }
        return result;
    }

    // Later uses on the same lane are ordered by the lane.
    bool starts_on_its_lane(const Op& op, BufferId buffer) const {
        const auto uses = uses_.of(buffer);
        const auto own = std::ranges::find(uses, lanes().lane(op.id), &LaneUse::lane);
        return own->first == lanes().place(op.id);
    }

    void enter_arena(BufferId id) {
        const Buffer& buffer = schedule_.buffers[index(id)];
        if (entered_[index(id)]) return;
        entered_[index(id)] = true;
        const Bytes begin = *buffer.offset, end = *buffer.offset + buffer.bytes;
        TenantMap& tenants = tenants_[index(buffer.rank) * 2 + static_cast<std::size_t>(buffer.space)];
        tenants.for_each(begin, end, [&](BufferId old) {
            for (const LaneUse& use : uses_.of(old)) keep_latest(leavers_[index(id)], {use.lane, use.last});
        });
        tenants.take_over(begin, end, id);
    }

    static void keep_latest(std::vector<Leaver>& leavers, const Leaver& leaver) {
        const auto at = std::ranges::lower_bound(leavers, leaver.lane, {}, &Leaver::lane);
        if (at == leavers.end() || at->lane != leaver.lane)
            leavers.insert(at, leaver);
        else
            at->place = std::max(at->place, leaver.place);
    }

    void add_edges(Op& op, const std::vector<Leaver>& missing) {
        if (missing.empty()) return;
        for (const Leaver& leaver : missing)
            if (!implied_by_others(op, leaver, missing)) op.after.push_back(op_of(op, leaver));
        for (const Leaver& leaver : missing) before_.wait_for(op.id, op_of(op, leaver));
        std::sort(op.after.begin(), op.after.end());
        op.after.erase(std::unique(op.after.begin(), op.after.end()), op.after.end());
    }

    bool implied_by_others(const Op& op, const Leaver& leaver, const std::vector<Leaver>& missing) const {
        return std::ranges::any_of(missing,
                                   [&](const Leaver& other) { return before_(op_of(op, leaver), op_of(op, other)); });
    }

    Schedule& schedule_;
    HappensBefore before_;
    BufferUses uses_;
    std::vector<TenantMap> tenants_;            // by rank and space
    std::vector<bool> entered_;                 // by buffer
    std::vector<std::vector<Leaver>> leavers_;  // by buffer, by lane: what its first users wait for
};

}  // namespace

void add_reuse_edges(Schedule& schedule) { ReuseEdges(schedule).run(); }

}  // namespace sluice

#include "tests/runtime/deeper_prefetch.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "schedule/place_memory.h"
#include "schedule/verify.h"

namespace sluice {
namespace {

std::vector<std::size_t> ops_of(const Schedule& schedule, LaneKind lane) {
    std::vector<std::size_t> ops;
    for (const Op& op : schedule.ops)
        if (op.lane.kind == lane) ops.push_back(index(op.id));
    return ops;
}

BufferId host_buffer(const Schedule& schedule, const Op& copy) {
    for (const Access& access : copy.accesses)
        if (schedule.buffers[index(access.buffer)].space == Space::kHost) return access.buffer;
    throw InternalError("a copy has no end on the host");
}

// The copy out that wrote what the copy in reads.
std::size_t source_of(const Schedule& schedule, std::size_t copy_in) {
    const BufferId host = host_buffer(schedule, schedule.ops[copy_in]);
    for (const std::size_t out : ops_of(schedule, LaneKind::kCopyOut))
        if (host_buffer(schedule, schedule.ops[out]) == host) return out;
    throw InternalError("nothing was copied out to there");
}

// Positions of the schedule's ops in their new order.
std::vector<std::size_t> new_order(const Schedule& schedule, const std::vector<std::size_t>& copies,
                                   std::size_t ahead) {
    std::vector<std::size_t> order;
    std::size_t listed = 0;  // copies in
    for (const Op& op : schedule.ops) {
        const auto own = std::find(copies.begin(), copies.end(), index(op.id));
        if (own == copies.end()) {
            order.push_back(index(op.id));
            continue;
        }
        const auto turn = static_cast<std::size_t>(own - copies.begin());
        for (; listed < copies.size() && listed <= turn + ahead; ++listed) {
            if (listed > turn && source_of(schedule, copies[listed]) > index(op.id)) break;
            order.push_back(copies[listed]);
        }
    }
    return order;
}

}  // namespace

Schedule deeper_prefetch(const Schedule& schedule, std::size_t ahead) {
    const std::vector<std::size_t> copies = ops_of(schedule, LaneKind::kCopyIn);
    const std::vector<std::size_t> order = new_order(schedule, copies, ahead);
    SLUICE_CHECK(order.size() == schedule.ops.size(), "every op is listed once");
    std::vector<OpId> renamed(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) renamed[order[k]] = id_at<OpId>(k);
    Schedule deeper = schedule;
    deeper.ops.clear();
    for (const std::size_t at : order) {
        Op op = schedule.ops[at];
        if (op.lane.kind == LaneKind::kCopyIn) op.after = {id_at<OpId>(source_of(schedule, at))};
        op.id = renamed[at];
        for (OpId& earlier : op.after) earlier = renamed[index(earlier)];
        std::sort(op.after.begin(), op.after.end());
        deeper.ops.push_back(std::move(op));
    }
    for (Buffer& buffer : deeper.buffers) buffer.offset.reset();
    place_memory(deeper);
    SLUICE_CHECK(verify(deeper).empty(), "the new order is a schedule");
    return deeper;
}

}  // namespace sluice

#include "schedule/offload_flows.h"

namespace sluice {
namespace {

bool overlap(const Access& a, const Access& b) {
    return a.first_block <= b.last_block && b.first_block <= a.last_block;
}

struct Offload {
    OpId op;
    Access written;
};

}  // namespace

std::vector<std::uint32_t> offload_flows(const Schedule& schedule) {
    std::vector<std::vector<Offload>> offloads(schedule.buffers.size());  // by host buffer, in issue order
    std::vector<OpId> source(schedule.ops.size(), kNoOp);  // by reload; an offload that has one names itself
    const auto on_host = [&](const Access& a) { return schedule.buffers[index(a.buffer)].space == Space::kHost; };
    for (const Op& op : schedule.ops) {
        for (const Access& access : op.accesses) {
            if (!on_host(access)) continue;
            std::vector<Offload>& written = offloads[index(access.buffer)];
            if (op.lane.kind == LaneKind::kCopyOut && access.mode != AccessMode::kRead) {
                written.push_back({op.id, access});
            } else if (op.lane.kind == LaneKind::kCopyIn && access.mode == AccessMode::kRead) {
                for (auto last = written.rbegin(); last != written.rend(); ++last) {
                    if (!overlap(last->written, access)) continue;
                    source[index(op.id)] = last->op;
                    source[index(last->op)] = last->op;
                    break;
                }
            }
        }
    }
    std::vector<std::uint32_t> flows(schedule.ops.size(), 0);
    std::uint32_t count = 0;
    for (std::size_t i = 0; i < flows.size(); ++i) {
        if (source[i] == id_at<OpId>(i)) flows[i] = ++count;
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
        if (source[i] != kNoOp) flows[i] = flows[index(source[i])];
    }
    return flows;
}

}  // namespace sluice

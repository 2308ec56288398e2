#include "traces/event_name.h"

#include <fmt/format.h>

#include "traces/lane_table.h"

namespace sluice {
namespace {

std::string what(LaneRole role, std::string_view label) {
    switch (role) {
        case LaneRole::kCompute:
            return std::string(label);
        case LaneRole::kCopyOut:
            return "offload";
        case LaneRole::kCopyIn:
            return "reload";
        case LaneRole::kCollective:
            return std::string(label) + " collective";
        case LaneRole::kSend:
            return "send";
        case LaneRole::kReceive:
            return "receive";
    }
    return "?";
}

std::string numbered(std::string name, std::int32_t subsequence, std::int32_t layer, std::int32_t part) {
    if (subsequence >= 0) name += fmt::format(" {}", subsequence);
    if (layer >= 0) name += fmt::format(" layer {}", layer);
    if (part >= 0) name += fmt::format(" part {}", part);
    return name;
}

}  // namespace

std::string event_name(const TraceEvent& e, LaneRole role, std::string_view label) {
    return numbered(what(role, label), e.subsequence, e.layer, e.part);
}

std::string event_name(const Op& op) {
    return numbered(what(lane_role(op.lane.kind), name(op.tag.phase)), op.tag.subsequence, op.tag.layer, op.tag.part);
}

}  // namespace sluice

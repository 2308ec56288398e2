#include "traces/lane_name.h"

#include <fmt/format.h>

namespace sluice {

std::string lane_name(const TraceLane& lane) {
    switch (lane.role) {
        case LaneRole::kCompute:
            return "compute";
        case LaneRole::kCopyOut:
            return "copy out (D2H)";
        case LaneRole::kCopyIn:
            return "copy in (H2D)";
        case LaneRole::kCollective:
            return "collective";
        case LaneRole::kSend:
            return fmt::format("send to r{}", index(lane.peer));
        case LaneRole::kReceive:
            return fmt::format("receive from r{}", index(lane.peer));
    }
    return "";
}

std::string_view category_of(LaneRole role) {
    switch (role) {
        case LaneRole::kCompute:
            return "compute";
        case LaneRole::kCopyOut:
            return "copy_out";
        case LaneRole::kCopyIn:
            return "copy_in";
        case LaneRole::kCollective:
            return "collective";
        case LaneRole::kSend:
            return "send";
        case LaneRole::kReceive:
            return "receive";
    }
    return "";
}

}  // namespace sluice

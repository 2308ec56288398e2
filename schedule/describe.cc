#include "schedule/describe.h"

#include <fmt/format.h>

namespace sluice {

std::string describe(const Op& op) {
    const std::string_view lane = name(op.lane.kind);
    const std::size_t peer = index(op.lane.peer);
    if (op.lane.kind == LaneKind::kSend)
        return fmt::format("op {} (rank {}, {} to {})", index(op.id), index(op.rank), lane, peer);
    if (op.lane.kind == LaneKind::kReceive)
        return fmt::format("op {} (rank {}, {} from {})", index(op.id), index(op.rank), lane, peer);
    return fmt::format("op {} (rank {}, {})", index(op.id), index(op.rank), lane);
}

std::string describe(const Tag& tag) {
    std::string text(name(tag.phase));
    if (tag.sequence != 0) text += fmt::format(" seq {}", tag.sequence);
    if (tag.stage >= 0) text += fmt::format(" stage {}", tag.stage);
    if (tag.virtual_stage >= 0) text += fmt::format(" virtual {}", tag.virtual_stage);
    if (tag.layer >= 0) text += fmt::format(" layer {}", tag.layer);
    if (tag.subsequence >= 0) text += fmt::format(" sub {}", tag.subsequence);
    if (tag.part >= 0) text += fmt::format(" part {}", tag.part);
    return text;
}

std::string describe(const Buffer& buffer) {
    return fmt::format("buffer {} (rank {}, {} {})", index(buffer.id), index(buffer.rank), name(buffer.space),
                       name(buffer.kind));
}

}  // namespace sluice

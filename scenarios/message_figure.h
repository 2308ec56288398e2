// How long a message between GPUs takes, alone on an idle machine: what nccl-tests reports and sluice profile measures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/units.h"

namespace sluice {

enum class MessageKind : std::uint8_t { kAllGather, kReduceScatter, kAllReduce, kAllToAll, kSendReceive };

// As nccl-tests calls its programs: "all_gather_perf".
std::string_view nccl_test_name(MessageKind);

struct MessageFigure {
    MessageKind kind = MessageKind::kAllGather;
    std::size_t members = 0;  // of the group; every one of them takes part
    // Of a group across nodes: the adapters of each node that it uses (models/rails.h). 0: inside a node.
    std::size_t rails = 0;
    Bytes size{};  // the whole tensor of one member (nccl-tests conventions); of a transfer what one member sends
    Seconds time{};
    friend bool operator==(const MessageFigure&, const MessageFigure&) = default;
};

}  // namespace sluice

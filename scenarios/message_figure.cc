#include "scenarios/message_figure.h"

namespace sluice {

std::string_view nccl_test_name(MessageKind kind) {
    switch (kind) {
        case MessageKind::kAllGather:
            return "all_gather_perf";
        case MessageKind::kReduceScatter:
            return "reduce_scatter_perf";
        case MessageKind::kAllReduce:
            return "all_reduce_perf";
        case MessageKind::kAllToAll:
            return "alltoall_perf";
        case MessageKind::kSendReceive:
            return "sendrecv_perf";
    }
    return "?";
}

}  // namespace sluice

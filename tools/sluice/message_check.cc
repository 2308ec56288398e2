#include "tools/sluice/message_check.h"

#include <algorithm>

#include "models/collective_cost.h"

namespace sluice {

std::optional<Seconds> message_time(const MessageFigure& f, const Calibration& c,
                                    const std::optional<TransferLine>& line) {
    if (f.kind != MessageKind::kSendReceive)
        return collective_time({collective_kind(f.kind), GroupId{0}, f.size, 1}, f.members, f.rails > 0, c,
                               std::max<std::size_t>(1, f.rails));
    if (!line) return std::nullopt;
    return line->latency + f.size / line->bandwidth;
}

}  // namespace sluice

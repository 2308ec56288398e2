// What is foretold of messages between GPUs, beside what was measured.
#pragma once

#include <optional>

#include "base/units.h"
#include "runtime/profile/message_tables.h"
#include "scenarios/calibration.h"
#include "scenarios/message_figure.h"

namespace sluice {

// Of a message of this kind, size and group: `line` is of transfers, as a cluster has them. None: nothing is known.
std::optional<Seconds> message_time(const MessageFigure& figure, const Calibration& calibration,
                                    const std::optional<TransferLine>& line);

}  // namespace sluice

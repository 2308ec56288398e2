// What times of messages say, as calibrations and clusters have it. Pure: docs/profile.md has the rules.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "scenarios/calibration.h"
#include "scenarios/message_figure.h"
#include "schedule/schedule.h"

namespace sluice {

// Of all-gather, reduce-scatter and all-reduce, all-to-all where there is none of these; `across` between nodes, by
// adapter. Ascending size; empty: no figures.
struct CollectiveTables {
    Seconds step{};
    bool step_measured = false;  // else it is the one that was given
    std::vector<BandwidthPoint> inside, across;
};

// The step is what the least time of a group has per hop, the median over groups that have calls of 64 KiB or less,
// those inside a node before others. At every size the rate is that of the mean time per byte, the steps taken off, of
// which a twentieth stays at least.
CollectiveTables collective_tables(std::span<const MessageFigure> figures, Seconds step_if_unknown);

// A transfer takes latency + bytes / bandwidth.
struct TransferLine {
    BytesPerSecond bandwidth{};
    Seconds latency{};
};
// Of transfers inside a node or across: the line that is least off, relatively, over sizes of 1 MiB and more, or over
// all where fewer than two are so large. None: fewer than two sizes.
std::optional<TransferLine> transfer_line(std::span<const MessageFigure> figures, bool across);

// Requires: not kSendReceive.
CollectiveKind collective_kind(MessageKind);

}  // namespace sluice

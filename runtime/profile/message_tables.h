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

// What a collective takes before its bytes move: call + hops x step, as models/collective_cost.h has it.
struct CollectiveLatency {
    Seconds call{}, step{};
};

// Of all-gather, reduce-scatter and all-reduce, all-to-all where there is none of these; `across` between nodes, by
// adapter. Ascending size; empty: no figures.
struct CollectiveTables {
    CollectiveLatency latency;
    bool latency_measured = false;  // else it is the one that was given
    std::vector<BandwidthPoint> inside, across;
};

// The latency is the line through the least times of groups that have calls of 64 KiB or less, by their hops, those
// inside a node before others; groups that all have equally many hops cannot tell call from step, and then it is all
// the step's. At every size the rate is that of the mean time per byte, the latency taken off, of which a twentieth
// stays at least.
CollectiveTables collective_tables(std::span<const MessageFigure> figures, CollectiveLatency if_unknown);

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

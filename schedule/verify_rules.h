// The rules verify() is made of, and the checks that report them. Private to schedule/ and its tests; the rules are
// explained in docs/schedule-rules.md.
//
// Checks run in three layers, each only when the layers before found nothing: ids and ranges, single ops, the whole.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/ids.h"
#include "schedule/buffer_uses.h"
#include "schedule/happens_before.h"
#include "schedule/lane_index.h"
#include "schedule/schedule.h"

namespace sluice {

enum class Rule : std::uint8_t {
    // ids and ranges
    kDenseIds,
    kIndexRange,
    kEnumRange,
    kValueRange,
    kSizeLimit,
    kBlockSizes,
    kBlockRange,
    kAttentionWindow,
    kGroupMembers,
    kRootRange,
    kLaneCount,
    // single ops
    kLaneWork,
    kLanePeer,
    kAfterSelf,
    kAfterOtherRank,
    kCollectiveMember,
    kForeignBuffer,
    kCopyBuffers,
    // the whole
    kSendWithoutReceive,
    kReceiveWithoutSend,
    kTransferBytes,
    kCollectiveMissing,
    kCollectiveMismatch,
    kCycle,
    kUnorderedAccess,
    kReloadBeforeOffload,
    kBackwardBeforeReload,
    kReadBeforeWrite,
    kOverlap,
    kReuseBeforeCopy,
    kDeviceCapacity,
    kHostCapacity,
};
inline constexpr std::array<std::string_view, 32> kRuleNames{
    "dense-ids",
    "index-range",
    "enum-range",
    "value-range",
    "size-limit",
    "block-sizes",
    "block-range",
    "attention-window",
    "group-members",
    "root-range",
    "lane-count",
    "lane-work",
    "lane-peer",
    "after-self",
    "after-other-rank",
    "collective-member",
    "foreign-buffer",
    "copy-buffers",
    "send-without-receive",
    "receive-without-send",
    "transfer-bytes",
    "collective-missing",
    "collective-mismatch",
    "cycle",
    "unordered-access",
    "reload-before-offload",
    "backward-before-reload",
    "read-before-write",
    "overlap",
    "reuse-before-copy",
    "device-capacity",
    "host-capacity",
};
static_assert(static_cast<std::size_t>(Rule::kHostCapacity) + 1 == kRuleNames.size());

inline constexpr Bytes kMaxTotalBytes{std::int64_t{1} << 60};  // of all buffers together: sums cannot overflow
inline constexpr std::size_t kMaxLanesPerRank = 64;            // keeps the vector clocks linear in the ops

void report(Diagnostics& found, Rule rule, OpId op, BufferId buffer, std::string message);

// Ids dense, indices, enums and numbers in range. Safe for any values.
void check_structure(const Schedule& schedule, Diagnostics& found);

// Every op by itself: lane, `after`, membership, buffers. Requires: check_structure found nothing.
void check_ops(const Schedule& schedule, Diagnostics& found);

// Pairs sends with receives and collectives with each other. Returns who meets whom as rings: result[op] is the next
// partner of op, op itself when it meets nobody. Requires: check_ops found nothing; so do all below.
std::vector<OpId> match_partners(const Schedule& schedule, const LaneIndex& lanes, Diagnostics& found);

// Lane order, `after` and matches together leave no op waiting for itself. One cycle per knot of blocked ops.
void check_cycles(const Schedule& schedule, const LaneIndex& lanes, std::span<const OpId> partners, Diagnostics& found);

// Conflicting accesses to a block are ordered, and what is read was written. `order` is a topological order.
void check_accesses(const Schedule& schedule, const HappensBefore& before, std::span<const OpId> order,
                    const BufferUses& uses, Diagnostics& found);

// Buffers that share bytes are ordered (rule 5).
void check_places(const Schedule& schedule, const HappensBefore& before, std::span<const OpId> order,
                  const BufferUses& uses, Diagnostics& found);

// Arenas fit the device, and together the host.
void check_capacities(const Schedule& schedule, Diagnostics& found);

}  // namespace sluice

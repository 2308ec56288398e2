// Messages between ranks, put on streams: what a schedule's sends, receives and collectives are on a GPU.
//
// A transport is one rank's end of all its groups and channels, made before the first step, and called by the rank's
// thread alone while it issues a step. A call puts the rank's part of a message on the call's stream and returns. The
// memory is read and written when the stream comes there; what follows on that stream may use it again.
//
// The k-th call of a group (of a channel) on one member belongs to the k-th of every other. When they disagree (kind,
// bytes, `what`), the run fails with an InternalError that names both calls.
//
// A call may block its thread until the partners have made theirs: ranks of one process meet while they issue. So the
// threads' issue orders must fit together, which expect_issuable() (runtime/issue_order.h) checks before the first
// step. When the run fails, a blocked call ends with RunStopped. Nothing is allocated in a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "runtime/cuda/device_part.h"
#include "runtime/cuda/device_views.h"
#include "runtime/run_monitor.h"
#include "schedule/schedule.h"

namespace sluice::cuda {

enum class ElementType : std::uint8_t { kBf16, kFp32, kFp64 };
constexpr std::size_t size_of(ElementType type) {
    return type == ElementType::kBf16 ? 2 : type == ElementType::kFp32 ? 4 : 8;
}

struct TransportCall {
    OpId op{};              // that it is made for
    std::string_view what;  // describe_call(op): the same on all partners, kept by the caller as long as the transport
    Stream stream = nullptr;
};

// Memory is the rank's own device memory, gapless and aligned to its elements. Parts of all members are of one size;
// shares (runtime/member_share.h) may differ.
class Transport {
public:
    virtual ~Transport() = default;

    // Before the first call of a step, on the rank's thread.
    virtual void begin_step() {}

    // `all` becomes the members' parts one behind the other. `mine` may be its own place in `all`.
    virtual void all_gather(const TransportCall&, GroupId, std::span<const std::byte> mine,
                            std::span<std::byte> all) = 0;
    // `mine` becomes the member's part of the sum of all members' `all`. May be its own place in `all`.
    virtual void reduce_scatter(const TransportCall&, GroupId, ElementType, std::span<const std::byte> all,
                                std::span<std::byte> mine) = 0;
    // In place: every piece is cut into the members' shares, and all members bring the same pieces. A member's shares
    // become known to all; or they become those of the sum, and of its other values nothing is said.
    virtual void all_gather_shares(const TransportCall&, GroupId, ElementType,
                                   std::span<const std::span<std::byte>> pieces) = 0;
    virtual void reduce_scatter_shares(const TransportCall&, GroupId, ElementType,
                                       std::span<const std::span<std::byte>> pieces) = 0;
    // Every member's values become the sum over members, in place. All cut their values into the same pieces.
    virtual void all_reduce(const TransportCall&, GroupId, ElementType,
                            std::span<const std::span<std::byte>> pieces) = 0;
    // Part j of `out` goes to member j, part i of `in` comes from member i; of several tensors the parts follow one
    // another: those of the first for every member, then of the next. Parts of one tensor are of one size.
    virtual void all_to_all(const TransportCall&, GroupId, std::span<const std::span<const std::byte>> out,
                            std::span<const std::span<std::byte>> in) = 0;
    // One channel for each ordered pair of ranks.
    virtual void send(const TransportCall&, Rank to, std::span<const std::byte> bytes) = 0;
    virtual void receive(const TransportCall&, Rank from, std::span<std::byte> bytes) = 0;
};

// What transports are made of; all of it outlives them.
struct TransportParts {
    const Schedule& schedule;
    std::span<const Group> groups;               // transport_groups(): more than the schedule's
    std::span<const Rank> local;                 // ranks of this process
    std::span<const DevicePart* const> devices;  // what each of them runs on
    RunMonitor& monitor;
};

// One per local rank. Called when every rank's device is there; threads of the ranks have not begun.
using TransportMaker = std::function<std::vector<std::unique_ptr<Transport>>(const TransportParts&)>;

// The groups of a run, by id: those of the schedule and, where shards share out the vocabulary (`weight_shards` above
// 1), one for each sequence-parallel group, for what they exchange inside the loss. That is called on the compute
// stream, beside collectives of the same ranks on theirs, so it is a group of its own.
std::vector<Group> transport_groups(const Schedule&, std::int64_t shards, std::int64_t weight_shards);

// Of the groups above, the one in which the rank exchanges partial losses.
GroupId loss_group(const Schedule&, std::int64_t shards, Rank);

}  // namespace sluice::cuda

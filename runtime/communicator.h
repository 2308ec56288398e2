// Messages between ranks that are threads of one process: a group of members that meet, check that they mean the same
// call, and copy from each other's memory.
//
// Every call blocks until all members are there, and returns when nobody needs the caller's memory any more. Same
// inputs, same bits: sums are formed in the order of the members, whoever comes first.
//
// The k-th call of one member meets the k-th of every other. When they disagree (kind, bytes, root, description), every
// member throws an InternalError naming both calls, instead of a hang or of garbage. When the run fails, calls end with
// RunStopped. After either a communicator is of no more use. Lists of spans are read by other members during the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "runtime/meeting.h"
#include "runtime/run_monitor.h"
#include "schedule/schedule.h"

namespace sluice {

// Who calls, and what for. `what` is compared between members (in full) and printed, never kept: make it beforehand,
// with nothing in it that differs between members, for instance describe_call(op).
struct CommCall {
    std::uint32_t member = 0;  // position in the group
    std::string_view what;
};

class Communicator {
public:
    // `name` is for messages: "group 2". Refers to the monitor.
    Communicator(std::string name, std::vector<Rank> members, RunMonitor& monitor);

    std::uint32_t size() const { return meeting_.size(); }
    std::uint32_t member_of(Rank rank) const { return meeting_.member_of(rank); }

    // `all` becomes the members' parts one behind the other; parts may differ in length. `mine` may be its own place in
    // `all`, and must not overlap it otherwise.
    void all_gather(const CommCall& call, std::span<const float> mine, std::span<float> all);
    // `mine` becomes the member's part of the sum of all members' `all`; parts lie one behind the other and may differ
    // in length. `mine` may be its own place in `all`.
    void reduce_scatter(const CommCall& call, std::span<const float> all, std::span<float> mine);
    // In place: every piece is cut into the members' shares (member_share.h), and all members bring the same pieces. A
    // member's shares become known to all; or they become those of the sum, and its other values stay.
    void all_gather_shares(const CommCall& call, std::span<const std::span<float>> pieces);
    void reduce_scatter_shares(const CommCall& call, std::span<const std::span<float>> pieces);
    // Every member's values become the sum over members, in place. The pieces of a list are taken as one long vector;
    // members need not cut it alike.
    void all_reduce(const CommCall& call, std::span<float> values);
    void all_reduce(const CommCall& call, std::span<const std::span<float>> pieces);
    void all_reduce(const CommCall& call, std::span<double> values);
    // Part j of `out` goes to member j, part i of `in` comes from member i. Parts may differ in length and be empty.
    // Of several tensors in one call the parts follow one another: those of the first for every member, then of the
    // next.
    void all_to_all(const CommCall& call, std::span<const std::span<const float>> out,
                    std::span<const std::span<float>> in);
    // The root's bytes become everybody's.
    void broadcast(const CommCall& call, std::uint32_t root, std::span<std::byte> bytes);
    // From member 0 to member 1 of a group of two, one direction.
    void send(const CommCall& call, std::span<const std::byte> bytes);
    void receive(const CommCall& call, std::span<std::byte> bytes);
    // Everybody is here.
    void barrier(const CommCall& call);

private:
    // What a member brings to a call. Kept until all have left it.
    struct Slot {
        std::span<const float> in;                     // all_gather: mine; reduce_scatter: all
        std::size_t part = 0;                          // reduce_scatter: floats of mine
        std::span<const std::span<float>> pieces;      // all_reduce, shares
        std::span<double> doubles;                     // all_reduce of doubles
        std::span<const std::span<const float>> outs;  // all_to_all
        std::span<const std::span<float>> ins;         // all_to_all
        std::span<const std::byte> source;             // send, broadcast
    };
    struct Cursor {  // a position in the pieces of a member
        std::size_t piece = 0, at = 0;
    };
    struct Member {
        Slot slot;
        std::vector<Cursor> cursors;  // by member; of this member's own walk
    };

    void meet(const CommCall& call, CallKind kind, std::size_t bytes, const Slot& slot, std::uint32_t root = 0);
    void leave(const CommCall& call) { meeting_.leave(call.member); }
    std::optional<std::string> find_wrong_parts(CallKind kind, std::size_t bytes) const;
    std::optional<std::string> find_wrong_pieces() const;
    std::optional<std::string> find_wrong_exchange() const;
    template <class ValuesOf>
    void add_up(const ValuesOf& values_of, std::span<float> sums) const;
    void seek(std::vector<Cursor>& cursors, std::size_t position) const;

    Meeting meeting_;
    std::vector<Member> members_;
};

}  // namespace sluice

#include "runtime/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "runtime/member_share.h"

namespace sluice {
namespace {

// Sums are formed in stretches that stay in the first-level cache.
constexpr std::size_t kStretch = 1024;

template <class T>
void copy_span(std::span<const T> from, std::span<T> to) {
    if (!from.empty() && from.data() != to.data()) std::memcpy(to.data(), from.data(), from.size_bytes());
}

template <class T>
void add_to(std::span<T> sum, const T* values) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
}

// The member's share of `count` values: [count m / n, count (m + 1) / n).
std::pair<std::size_t, std::size_t> share(std::size_t count, std::uint32_t member, std::uint32_t members) {
    const auto cut = [&](std::size_t m) { return count / members * m + count % members * m / members; };
    return {cut(member), cut(member + 1U)};
}

std::size_t total(std::span<const std::span<float>> pieces) {
    return std::accumulate(pieces.begin(), pieces.end(), std::size_t{0},
                           [](std::size_t sum, std::span<float> piece) { return sum + piece.size(); });
}

}  // namespace

Communicator::Communicator(std::string name, std::vector<Rank> members, RunMonitor& monitor)
    : meeting_(std::move(name), std::move(members), monitor), members_(meeting_.size()) {
    for (Member& member : members_) member.cursors.resize(meeting_.size());
}

// A slot is written when all have left the call before, and read only between meeting and leaving.
void Communicator::meet(const CommCall& call, CallKind kind, std::size_t bytes, const Slot& slot, std::uint32_t root) {
    SLUICE_CHECK(call.member < size(), "a call is made by a member");
    members_[call.member].slot = slot;
    const CallSignature signature{kind, bytes, root, call.what};
    const bool of_parts = kind == CallKind::kAllGather || kind == CallKind::kReduceScatter;
    if (kind == CallKind::kAllToAll)
        meeting_.meet(call.member, signature, [this] { return find_wrong_exchange(); });
    else if (of_parts && !slot.pieces.empty())
        meeting_.meet(call.member, signature, [this] { return find_wrong_pieces(); });
    else if (of_parts)
        meeting_.meet(call.member, signature,
                      [this, &signature] { return find_wrong_parts(signature.kind, signature.bytes); });
    else
        meeting_.meet(call.member, signature);
}

std::optional<std::string> Communicator::find_wrong_parts(CallKind kind, std::size_t bytes) const {
    std::size_t floats = 0;
    for (const Member& m : members_) floats += kind == CallKind::kAllGather ? m.slot.in.size() : m.slot.part;
    if (floats * sizeof(float) == bytes) return std::nullopt;
    return fmt::format("{}, but the members' parts have {} bytes together", meeting_.describe_call(0),
                       floats * sizeof(float));
}

std::optional<std::string> Communicator::find_wrong_pieces() const {
    const std::span<const std::span<float>> first = members_[0].slot.pieces;
    for (std::uint32_t m = 1; m < size(); ++m)
        if (!std::ranges::equal(members_[m].slot.pieces, first, {}, &std::span<float>::size, &std::span<float>::size))
            return fmt::format("{}, but in other pieces than rank {}", meeting_.describe_call(m),
                               index(meeting_.rank_of(0)));
    return std::nullopt;
}

std::optional<std::string> Communicator::find_wrong_exchange() const {
    for (std::uint32_t from = 0; from < size(); ++from)
        for (std::uint32_t to = 0; to < size(); ++to) {
            const std::span<const std::span<const float>> outs = members_[from].slot.outs;
            const std::span<const std::span<float>> ins = members_[to].slot.ins;
            const std::size_t receiver = index(meeting_.rank_of(to));
            if (outs.size() != ins.size())
                return fmt::format("{}, and sends {} parts to {} members, but rank {} expects {}",
                                   meeting_.describe_call(from), outs.size(), size(), receiver, ins.size());
            for (std::size_t tensor = 0; tensor < outs.size(); tensor += size())
                if (outs[tensor + to].size() != ins[tensor + from].size())
                    return fmt::format("{}, and sends {} floats to rank {}, which expects {}",
                                       meeting_.describe_call(from), outs[tensor + to].size(), receiver,
                                       ins[tensor + from].size());
        }
    return std::nullopt;
}

// ---- Calls
// -----------------------------------------------------------------------------------------------------------

void Communicator::all_gather(const CommCall& call, std::span<const float> mine, std::span<float> all) {
    Slot slot;
    slot.in = mine;
    meet(call, CallKind::kAllGather, all.size_bytes(), slot);
    std::size_t at = 0;
    for (const Member& member : members_) {
        const std::span<const float> part = member.slot.in;
        copy_span(part, all.subspan(at, part.size()));
        at += part.size();
    }
    leave(call);
}

void Communicator::reduce_scatter(const CommCall& call, std::span<const float> all, std::span<float> mine) {
    Slot slot;
    slot.in = all;
    slot.part = mine.size();
    meet(call, CallKind::kReduceScatter, all.size_bytes(), slot);
    std::size_t first = 0;
    for (std::uint32_t m = 0; m < call.member; ++m) first += members_[m].slot.part;
    add_up([&](std::uint32_t m) { return members_[m].slot.in.subspan(first); }, mine);
    leave(call);
}

// `sums` becomes the sum of as many of each member's values, and may be one member's.
template <class ValuesOf>
void Communicator::add_up(const ValuesOf& values_of, std::span<float> sums) const {
    std::array<float, kStretch> stretch;
    for (std::size_t at = 0; at < sums.size(); at += kStretch) {
        const std::span<float> sum(stretch.data(), std::min(kStretch, sums.size() - at));
        copy_span(std::span<const float>(values_of(0U).subspan(at, sum.size())), sum);
        for (std::uint32_t m = 1; m < size(); ++m) add_to(sum, values_of(m).data() + at);
        copy_span(std::span<const float>(sum), sums.subspan(at, sum.size()));
    }
}

void Communicator::all_gather_shares(const CommCall& call, std::span<const std::span<float>> pieces) {
    Slot slot;
    slot.pieces = pieces;
    meet(call, CallKind::kAllGather, total(pieces) * sizeof(float), slot);
    for (std::size_t p = 0; p < pieces.size(); ++p)
        for (std::uint32_t m = 0; m < size(); ++m) {
            const MemberShare share = member_share(pieces[p].size(), m, size());
            const std::span<const float> theirs = members_[m].slot.pieces[p].subspan(share.first, share.count);
            copy_span(theirs, pieces[p].subspan(share.first, share.count));
        }
    leave(call);
}

// A member's share is read by that member alone, so it can be summed in place.
void Communicator::reduce_scatter_shares(const CommCall& call, std::span<const std::span<float>> pieces) {
    Slot slot;
    slot.pieces = pieces;
    meet(call, CallKind::kReduceScatter, total(pieces) * sizeof(float), slot);
    for (std::size_t p = 0; p < pieces.size(); ++p) {
        const MemberShare share = member_share(pieces[p].size(), call.member, size());
        add_up([&](std::uint32_t m) { return members_[m].slot.pieces[p].subspan(share.first, share.count); },
               pieces[p].subspan(share.first, share.count));
    }
    leave(call);
}

void Communicator::all_reduce(const CommCall& call, std::span<float> values) {
    const std::array<std::span<float>, 1> pieces = {values};
    all_reduce(call, pieces);
}

// Every member sums its share of the values and writes it to all: nobody else reads or writes that share, and so the
// sums can be formed in place.
void Communicator::all_reduce(const CommCall& call, std::span<const std::span<float>> pieces) {
    Slot slot;
    slot.pieces = pieces;
    const std::size_t count = total(pieces);
    meet(call, CallKind::kAllReduce, count * sizeof(float), slot);
    const auto [begin, end] = share(count, call.member, size());
    std::vector<Cursor>& cursors = members_[call.member].cursors;
    seek(cursors, begin);
    const auto at_cursor = [&](std::uint32_t m) {
        return members_[m].slot.pieces[cursors[m].piece].subspan(cursors[m].at);
    };
    std::array<float, kStretch> sums;
    for (std::size_t at = begin; at < end;) {
        std::size_t length = std::min(kStretch, end - at);
        for (std::uint32_t m = 0; m < size(); ++m) {
            while (at_cursor(m).empty()) cursors[m] = {cursors[m].piece + 1, 0};
            length = std::min(length, at_cursor(m).size());
        }
        const std::span<float> sum(sums.data(), length);
        copy_span(std::span<const float>(at_cursor(0).first(length)), sum);
        for (std::uint32_t m = 1; m < size(); ++m) add_to(sum, at_cursor(m).data());
        for (std::uint32_t m = 0; m < size(); ++m) {
            copy_span(std::span<const float>(sum), at_cursor(m).first(length));
            cursors[m].at += length;
        }
        at += length;
    }
    leave(call);
}

// Where every member's `position`-th value lies.
void Communicator::seek(std::vector<Cursor>& cursors, std::size_t position) const {
    for (std::uint32_t m = 0; m < size(); ++m) {
        const std::span<const std::span<float>> pieces = members_[m].slot.pieces;
        Cursor& cursor = cursors[m];
        cursor = {0, position};
        while (cursor.piece + 1 < pieces.size() && cursor.at >= pieces[cursor.piece].size()) {
            cursor.at -= pieces[cursor.piece].size();
            ++cursor.piece;
        }
    }
}

void Communicator::all_reduce(const CommCall& call, std::span<double> values) {
    Slot slot;
    slot.doubles = values;
    meet(call, CallKind::kAllReduceDouble, values.size_bytes(), slot);
    const auto [begin, end] = share(values.size(), call.member, size());
    for (std::size_t i = begin; i < end; ++i) {
        double sum = members_[0].slot.doubles[i];
        for (std::uint32_t m = 1; m < size(); ++m) sum += members_[m].slot.doubles[i];
        for (const Member& member : members_) member.slot.doubles[i] = sum;
    }
    leave(call);
}

void Communicator::all_to_all(const CommCall& call, std::span<const std::span<const float>> out,
                              std::span<const std::span<float>> in) {
    SLUICE_CHECK(out.size() % size() == 0 && in.size() == out.size(), "an all_to_all has parts for every member");
    Slot slot;
    slot.outs = out;
    slot.ins = in;
    meet(call, CallKind::kAllToAll, 0, slot);
    for (std::size_t first = 0; first < in.size(); first += size())
        for (std::uint32_t m = 0; m < size(); ++m) copy_span(members_[m].slot.outs[first + call.member], in[first + m]);
    leave(call);
}

void Communicator::broadcast(const CommCall& call, std::uint32_t root, std::span<std::byte> bytes) {
    SLUICE_CHECK(root < size(), "the root is a member");
    Slot slot;
    slot.source = bytes;
    meet(call, CallKind::kBroadcast, bytes.size(), slot, root);
    if (call.member != root) copy_span(members_[root].slot.source, bytes);
    leave(call);
}

void Communicator::send(const CommCall& call, std::span<const std::byte> bytes) {
    SLUICE_CHECK(size() == 2 && call.member == 0, "member 0 of two sends");
    Slot slot;
    slot.source = bytes;
    meet(call, CallKind::kTransfer, bytes.size(), slot);
    leave(call);
}

void Communicator::receive(const CommCall& call, std::span<std::byte> bytes) {
    SLUICE_CHECK(size() == 2 && call.member == 1, "member 1 of two receives");
    meet(call, CallKind::kTransfer, bytes.size(), {});
    copy_span(members_[0].slot.source, bytes);
    leave(call);
}

void Communicator::barrier(const CommCall& call) {
    meet(call, CallKind::kBarrier, 0, {});
    leave(call);
}

}  // namespace sluice

#include "runtime/cuda/stream_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "runtime/cuda/sum_members.h"
#include "runtime/member_share.h"

namespace sluice::cuda {
namespace {

// Elements between two members' shares of a sum are multiples of this, so that vectors stay whole.
constexpr std::size_t kShareStep = 64;

// Where the member's share of `count` elements begins; that of the member after the last is `count`.
std::size_t share_begin(std::size_t count, std::uint32_t member, std::uint32_t members) {
    const std::size_t steps = (count + kShareStep - 1) / kShareStep;
    return std::min(count, (steps / members * member + steps % members * member / members) * kShareStep);
}

std::size_t total(std::span<const std::span<std::byte>> pieces) {
    std::size_t bytes = 0;
    for (const std::span<std::byte>& piece : pieces) bytes += piece.size();
    return bytes;
}

}  // namespace

StreamCommunicator::StreamCommunicator(std::string name, std::vector<Rank> members, RunMonitor& monitor,
                                       StreamWork& work)
    : meeting_(std::move(name), std::move(members), monitor), work_(work), members_(meeting_.size()) {
    if (size() > kMostSummed)
        throw InputError(
            fmt::format("got a group of {} ranks in one process, expected at most {}", size(), kMostSummed));
}

void StreamCommunicator::join(std::uint32_t member) {
    members_[member].ready = work_.new_event();
    members_[member].done = work_.new_event();
}

// ---- Meeting and leaving
// ---------------------------------------------------------------------------------------------

// An event is recorded again only when every member has put its wait for the record before on its stream: `ready` when
// all have left the call, since they wait for it before; `done` when all have met for the next, since they wait for it
// before they come.
void StreamCommunicator::begin(const StreamCall& call, const CallSignature& signature, const Slot& slot,
                               const Meeting::FindFault& find_fault) {
    SLUICE_CHECK(call.member < size(), "a call is made by a member");
    Member& own = members_[call.member];
    SLUICE_CHECK(own.ready != nullptr, "a member joins before it calls");
    own.slot = slot;
    work_.record(own.ready, call.stream);
    meeting_.meet(call.member, signature, find_fault);
    for (const Member& other : members_)
        if (&other != &own) work_.wait_for(call.stream, other.ready);
}

void StreamCommunicator::end(const StreamCall& call) {
    const Member& own = members_[call.member];
    work_.record(own.done, call.stream);
    meeting_.leave(call.member);
    for (const Member& other : members_)
        if (&other != &own) work_.wait_for(call.stream, other.done);
}

std::optional<std::string> StreamCommunicator::find_wrong_parts() const {
    for (std::uint32_t m = 0; m < size(); ++m)
        if (members_[m].slot.part * size() != members_[m].slot.whole)
            return fmt::format("{}, but its part has {} bytes, expected {}", meeting_.describe_call(m),
                               members_[m].slot.part, members_[m].slot.whole / size());
    return std::nullopt;
}

std::optional<std::string> StreamCommunicator::find_wrong_pieces() const {
    const auto& first = members_[0].slot.pieces;
    for (std::uint32_t m = 1; m < size(); ++m) {
        const auto& own = members_[m].slot.pieces;
        if (!std::equal(own.begin(), own.end(), first.begin(), first.end(),
                        [](const auto& a, const auto& b) { return a.size() == b.size(); }))
            return fmt::format("{}, but in other pieces than rank {}", meeting_.describe_call(m),
                               index(meeting_.rank_of(0)));
    }
    return std::nullopt;
}

std::optional<std::string> StreamCommunicator::find_wrong_exchange() const {
    for (std::uint32_t from = 0; from < size(); ++from)
        for (std::uint32_t to = 0; to < size(); ++to) {
            const auto& outs = members_[from].slot.outs;
            const auto& ins = members_[to].slot.ins;
            bool same = outs.size() == ins.size();
            for (std::size_t first = 0; same && first < outs.size(); first += size())
                same = outs[first + to].size() == ins[first + from].size();
            if (!same)
                return fmt::format("{}, but what it sends to rank {} is not what that expects",
                                   meeting_.describe_call(from), index(meeting_.rank_of(to)));
        }
    return std::nullopt;
}

void StreamCommunicator::copy(Stream stream, std::span<const std::byte> from, std::byte* to) {
    if (!from.empty() && from.data() != to) work_.copy(stream, from.data(), to, from.size());
}

// ---- Calls
// -----------------------------------------------------------------------------------------------------------

void StreamCommunicator::all_gather(const StreamCall& call, std::span<const std::byte> mine, std::span<std::byte> all) {
    Slot slot;
    slot.in = mine;
    slot.part = mine.size(), slot.whole = all.size();
    begin(call, {CallKind::kAllGather, all.size(), 0, call.what}, slot, [this] { return find_wrong_parts(); });
    for (std::uint32_t m = 0; m < size(); ++m)
        copy(call.stream, members_[m].slot.in, all.subspan(m * mine.size(), mine.size()).data());
    end(call);
}

void StreamCommunicator::reduce_scatter(const StreamCall& call, ElementType type, std::span<const std::byte> all,
                                        std::span<std::byte> mine) {
    Slot slot;
    slot.in = all;
    slot.part = mine.size(), slot.whole = all.size();
    begin(call, {CallKind::kReduceScatter, all.size(), 0, call.what}, slot, [this] { return find_wrong_parts(); });
    std::array<const std::byte*, kMostSummed> from{};
    for (std::uint32_t m = 0; m < size(); ++m)
        from[m] = members_[m].slot.in.subspan(call.member * mine.size(), mine.size()).data();
    std::byte* const into = mine.data();
    work_.sum(call.stream, type, std::span(from).first(size()), {&into, 1}, mine.size() / size_of(type));
    end(call);
}

// The member's share of a piece, in the memory of `of`.
std::span<std::byte> StreamCommunicator::share_of(std::uint32_t of, ElementType type, std::uint32_t member,
                                                  std::size_t piece) const {
    const std::span<std::byte> whole = members_[of].slot.pieces[piece];
    const MemberShare share = member_share(whole.size() / size_of(type), member, size());
    return whole.subspan(share.first * size_of(type), share.count * size_of(type));
}

void StreamCommunicator::all_gather_shares(const StreamCall& call, ElementType type,
                                           std::span<const std::span<std::byte>> pieces) {
    Slot slot;
    slot.pieces = pieces;
    begin(call, {CallKind::kAllGather, total(pieces), 0, call.what}, slot, [this] { return find_wrong_pieces(); });
    for (std::size_t piece = 0; piece < pieces.size(); ++piece)
        for (std::uint32_t m = 0; m < size(); ++m)
            copy(call.stream, share_of(m, type, m, piece), share_of(call.member, type, m, piece).data());
    end(call);
}

// A member's share is read by that member alone, so it can be summed in place.
void StreamCommunicator::reduce_scatter_shares(const StreamCall& call, ElementType type,
                                               std::span<const std::span<std::byte>> pieces) {
    Slot slot;
    slot.pieces = pieces;
    begin(call, {CallKind::kReduceScatter, total(pieces), 0, call.what}, slot, [this] { return find_wrong_pieces(); });
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
        std::array<const std::byte*, kMostSummed> from{};
        for (std::uint32_t m = 0; m < size(); ++m) from[m] = share_of(m, type, call.member, piece).data();
        const std::span<std::byte> own = share_of(call.member, type, call.member, piece);
        std::byte* const into = own.data();
        work_.sum(call.stream, type, std::span(from).first(size()), {&into, 1}, own.size() / size_of(type));
    }
    end(call);
}

void StreamCommunicator::all_reduce(const StreamCall& call, ElementType type,
                                    std::span<const std::span<std::byte>> pieces) {
    Slot slot;
    slot.pieces = pieces;
    const CallKind kind = type == ElementType::kFp64 ? CallKind::kAllReduceDouble : CallKind::kAllReduce;
    begin(call, {kind, total(pieces), 0, call.what}, slot, [this] { return find_wrong_pieces(); });
    for (std::size_t piece = 0; piece < pieces.size(); ++piece) sum_share(call, type, piece);
    end(call);
}

// Every member sums its share of a piece and writes it to all: nobody else reads or writes that share, and so the sums
// can be formed in place.
void StreamCommunicator::sum_share(const StreamCall& call, ElementType type, std::size_t piece) {
    const std::size_t count = members_[call.member].slot.pieces[piece].size() / size_of(type);
    const std::size_t first = share_begin(count, call.member, size());
    const std::size_t last = share_begin(count, call.member + 1, size());
    if (first == last) return;
    std::array<const std::byte*, kMostSummed> from{};
    std::array<std::byte*, kMostSummed> into{};
    for (std::uint32_t m = 0; m < size(); ++m)
        from[m] = into[m] = members_[m].slot.pieces[piece].data() + first * size_of(type);
    work_.sum(call.stream, type, std::span(from).first(size()), std::span(into).first(size()), last - first);
}

void StreamCommunicator::all_to_all(const StreamCall& call, std::span<const std::span<const std::byte>> out,
                                    std::span<const std::span<std::byte>> in) {
    SLUICE_CHECK(out.size() % size() == 0 && in.size() == out.size(), "an all_to_all has parts for every member");
    Slot slot;
    slot.outs = out;
    slot.ins = in;
    begin(call, {CallKind::kAllToAll, 0, 0, call.what}, slot, [this] { return find_wrong_exchange(); });
    for (std::size_t first = 0; first < in.size(); first += size())
        for (std::uint32_t m = 0; m < size(); ++m)
            copy(call.stream, members_[m].slot.outs[first + call.member], in[first + m].data());
    end(call);
}

void StreamCommunicator::send(const StreamCall& call, std::span<const std::byte> bytes) {
    SLUICE_CHECK(size() == 2 && call.member == 0, "member 0 of two sends");
    Slot slot;
    slot.in = bytes;
    begin(call, {CallKind::kTransfer, bytes.size(), 0, call.what}, slot);
    end(call);
}

void StreamCommunicator::receive(const StreamCall& call, std::span<std::byte> bytes) {
    SLUICE_CHECK(size() == 2 && call.member == 1, "member 1 of two receives");
    begin(call, {CallKind::kTransfer, bytes.size(), 0, call.what}, {});
    copy(call.stream, members_[0].slot.in, bytes.data());
    end(call);
}

}  // namespace sluice::cuda

#include "runtime/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

#include "base/error.h"

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
    : name_(std::move(name)), monitor_(monitor) {
    for (const Rank rank : members) members_.push_back({rank, 0, {}, std::vector<Cursor>(members.size())});
}

std::uint32_t Communicator::member_of(Rank rank) const {
    for (std::uint32_t m = 0; m < size(); ++m)
        if (members_[m].rank == rank) return m;
    throw InternalError(fmt::format("{} has no member of rank {}", name_, index(rank)));
}

// ---- Meeting and leaving
// ---------------------------------------------------------------------------------------------

// A slot is written when all have left the call before, and read only between arrival and leaving.
void Communicator::meet(const CommCall& call, const Slot& slot) {
    SLUICE_CHECK(call.member < size(), "a call is made by a member");
    Member& own = members_[call.member];
    own.slot = slot;
    own.slot.what = call.what;
    ++own.calls;
    arrived_.add();
    wait(arrived_, own.calls * size());
    busy_.fetch_add(1, std::memory_order_seq_cst);
    if (monitor_.stopped()) {
        busy_.fetch_sub(1, std::memory_order_seq_cst);
        throw RunStopped{};
    }
    const std::optional<std::string> fault = find_fault();
    checked_.add();
    if (!fault) return;
    busy_.fetch_sub(1, std::memory_order_seq_cst);
    wait(checked_, own.calls * size());  // others may still look at the slot of this member
    throw InternalError(*fault);
}

void Communicator::leave(const CommCall& call) {
    busy_.fetch_sub(1, std::memory_order_seq_cst);
    left_.add();
    wait(left_, members_[call.member].calls * size());
}

// Where the run ends in between, the caller's memory (its stack, even) may be gone as soon as this throws: so it throws
// when nobody is at work on it any more. Who has not begun will not begin: it looks for the end of the run first.
void Communicator::wait(Signal& signal, std::uint64_t target) {
    try {
        monitor_.wait(signal, target);
    } catch (const RunStopped&) {
        while (busy_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
        throw;
    }
}

// All members look at the same slots, and so find the same fault.
std::optional<std::string> Communicator::find_fault() const {
    const auto signature = [](const Slot& s) { return std::tuple(s.kind, s.bytes, s.root, s.what); };
    const auto call = [&](std::uint32_t m) {
        return fmt::format("{}, call {}: {}", name_, members_[0].calls - 1, describe(m));
    };
    for (std::uint32_t m = 1; m < size(); ++m)
        if (signature(members_[m].slot) != signature(members_[0].slot))
            return fmt::format("{}, but {}, expected the same call", call(0), describe(m));
    const Slot& first = members_[0].slot;
    if (first.kind == Kind::kAllGather || first.kind == Kind::kReduceScatter) {
        std::size_t floats = 0;
        for (const Member& m : members_) floats += first.kind == Kind::kAllGather ? m.slot.in.size() : m.slot.part;
        if (floats * sizeof(float) != first.bytes)
            return fmt::format("{}, but the members' parts have {} bytes together", call(0), floats * sizeof(float));
    }
    if (first.kind != Kind::kAllToAll) return std::nullopt;
    for (std::uint32_t from = 0; from < size(); ++from)
        for (std::uint32_t to = 0; to < size(); ++to) {
            const std::span<const std::span<const float>> outs = members_[from].slot.outs;
            const std::span<const std::span<float>> ins = members_[to].slot.ins;
            if (outs.size() != ins.size())
                return fmt::format("{}, and sends {} parts to {} members, but rank {} expects {}", call(from),
                                   outs.size(), size(), index(members_[to].rank), ins.size());
            for (std::size_t tensor = 0; tensor < outs.size(); tensor += size())
                if (outs[tensor + to].size() != ins[tensor + from].size())
                    return fmt::format("{}, and sends {} floats to rank {}, which expects {}", call(from),
                                       outs[tensor + to].size(), index(members_[to].rank), ins[tensor + from].size());
        }
    return std::nullopt;
}

std::string Communicator::describe(std::uint32_t member) const {
    static constexpr std::array<std::string_view, 8> kNames = {
        "all_gather", "reduce_scatter", "all_reduce", "all_reduce of doubles",
        "all_to_all", "broadcast",      "transfer",   "barrier"};
    const Slot& slot = members_[member].slot;
    std::string text = fmt::format("rank {} calls {} of {} bytes", index(members_[member].rank),
                                   kNames[static_cast<std::size_t>(slot.kind)], slot.bytes);
    if (slot.root != 0) text += fmt::format(" from member {}", slot.root);
    if (!slot.what.empty()) text += fmt::format(" for \"{}\"", slot.what);
    return text;
}

// ---- Calls
// -----------------------------------------------------------------------------------------------------------

void Communicator::all_gather(const CommCall& call, std::span<const float> mine, std::span<float> all) {
    Slot slot;
    slot.kind = Kind::kAllGather;
    slot.bytes = all.size_bytes();
    slot.in = mine;
    meet(call, slot);
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
    slot.kind = Kind::kReduceScatter;
    slot.bytes = all.size_bytes();
    slot.in = all;
    slot.part = mine.size();
    meet(call, slot);
    std::size_t first = 0;
    for (std::uint32_t m = 0; m < call.member; ++m) first += members_[m].slot.part;
    std::array<float, kStretch> sums;
    for (std::size_t at = 0; at < mine.size(); at += kStretch) {
        const std::span<float> sum(sums.data(), std::min(kStretch, mine.size() - at));
        copy_span(members_[0].slot.in.subspan(first + at, sum.size()), sum);
        for (std::uint32_t m = 1; m < size(); ++m) add_to(sum, members_[m].slot.in.data() + first + at);
        copy_span(std::span<const float>(sum), mine.subspan(at, sum.size()));
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
    slot.kind = Kind::kAllReduce;
    slot.bytes = total(pieces) * sizeof(float);
    slot.pieces = pieces;
    meet(call, slot);
    const auto [begin, end] = share(slot.bytes / sizeof(float), call.member, size());
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
    slot.kind = Kind::kAllReduceDouble;
    slot.bytes = values.size_bytes();
    slot.doubles = values;
    meet(call, slot);
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
    slot.kind = Kind::kAllToAll;
    slot.outs = out;
    slot.ins = in;
    meet(call, slot);
    for (std::size_t first = 0; first < in.size(); first += size())
        for (std::uint32_t m = 0; m < size(); ++m) copy_span(members_[m].slot.outs[first + call.member], in[first + m]);
    leave(call);
}

void Communicator::broadcast(const CommCall& call, std::uint32_t root, std::span<std::byte> bytes) {
    SLUICE_CHECK(root < size(), "the root is a member");
    Slot slot;
    slot.kind = Kind::kBroadcast;
    slot.bytes = bytes.size();
    slot.root = root;
    slot.source = bytes;
    meet(call, slot);
    if (call.member != root) copy_span(members_[root].slot.source, bytes);
    leave(call);
}

void Communicator::send(const CommCall& call, std::span<const std::byte> bytes) {
    SLUICE_CHECK(size() == 2 && call.member == 0, "member 0 of two sends");
    Slot slot;
    slot.kind = Kind::kTransfer;
    slot.bytes = bytes.size();
    slot.source = bytes;
    meet(call, slot);
    leave(call);
}

void Communicator::receive(const CommCall& call, std::span<std::byte> bytes) {
    SLUICE_CHECK(size() == 2 && call.member == 1, "member 1 of two receives");
    Slot slot;
    slot.kind = Kind::kTransfer;
    slot.bytes = bytes.size();
    meet(call, slot);
    copy_span(members_[0].slot.source, bytes);
    leave(call);
}

void Communicator::barrier(const CommCall& call) {
    meet(call, {});
    leave(call);
}

}  // namespace sluice

#include "runtime/meeting.h"

#include <fmt/format.h>

#include <array>
#include <thread>
#include <utility>

#include "base/error.h"

namespace sluice {

std::string_view name(CallKind kind) {
    static constexpr std::array<std::string_view, 8> kNames = {
        "all_gather", "reduce_scatter", "all_reduce", "all_reduce of doubles",
        "all_to_all", "broadcast",      "transfer",   "barrier"};
    return kNames[static_cast<std::size_t>(kind)];
}

Meeting::Meeting(std::string name, std::vector<Rank> members, RunMonitor& monitor)
    : name_(std::move(name)), monitor_(monitor) {
    for (const Rank rank : members) members_.push_back({rank, 0, {}});
}

std::uint32_t Meeting::member_of(Rank rank) const {
    for (std::uint32_t m = 0; m < size(); ++m)
        if (members_[m].rank == rank) return m;
    throw InternalError(fmt::format("{} has no member of rank {}", name_, index(rank)));
}

void Meeting::meet(std::uint32_t member, const CallSignature& signature, const FindFault& find_fault) {
    SLUICE_CHECK(member < size(), "a call is made by a member");
    Member& own = members_[member];
    own.signature = signature;
    ++own.calls;
    arrived_.add();
    wait(arrived_, own.calls * size());
    busy_.fetch_add(1, std::memory_order_seq_cst);
    if (monitor_.stopped()) {
        busy_.fetch_sub(1, std::memory_order_seq_cst);
        throw RunStopped{};
    }
    std::optional<std::string> fault = find_difference();
    if (!fault && find_fault) fault = find_fault();
    checked_.add();
    if (!fault) return;
    busy_.fetch_sub(1, std::memory_order_seq_cst);
    wait(checked_, own.calls * size());  // others may still look at what this member has left
    throw InternalError(*fault);
}

void Meeting::leave(std::uint32_t member) {
    busy_.fetch_sub(1, std::memory_order_seq_cst);
    left_.add();
    wait(left_, members_[member].calls * size());
}

// Where the run ends in between, the caller's memory (its stack, even) may be gone as soon as this throws: so it throws
// when nobody is at work on it any more. Who has not begun will not begin: it looks for the end of the run first.
void Meeting::wait(Signal& signal, std::uint64_t target) {
    try {
        monitor_.wait(signal, target);
    } catch (const RunStopped&) {
        while (busy_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
        throw;
    }
}

// All members look at the same signatures, and so find the same fault.
std::optional<std::string> Meeting::find_difference() const {
    for (std::uint32_t m = 1; m < size(); ++m)
        if (members_[m].signature != members_[0].signature)
            return fmt::format("{}, but {}, expected the same call", describe_call(0), describe(m));
    return std::nullopt;
}

std::string Meeting::describe_call(std::uint32_t member) const {
    return fmt::format("{}, call {}: {}", name_, members_[0].calls - 1, describe(member));
}

std::string Meeting::describe(std::uint32_t member) const {
    const CallSignature& s = members_[member].signature;
    std::string text = fmt::format("rank {} calls {} of {} bytes", index(members_[member].rank), name(s.kind), s.bytes);
    if (s.root != 0) text += fmt::format(" from member {}", s.root);
    if (!s.what.empty()) text += fmt::format(" for \"{}\"", s.what);
    return text;
}

}  // namespace sluice

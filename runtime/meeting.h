// Where the members of a group, threads of one process, meet for a call, see that they mean the same one, and leave
// together. What they do in between is the business of who uses it: copy from each other's memory (communicator.h), or
// put copies on streams of a GPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "runtime/run_monitor.h"
#include "runtime/signal.h"
#include "schedule/schedule.h"

namespace sluice {

enum class CallKind : std::uint8_t {
    kAllGather,
    kReduceScatter,
    kAllReduce,
    kAllReduceDouble,
    kAllToAll,
    kBroadcast,
    kTransfer,
    kBarrier,
};
std::string_view name(CallKind kind);  // "all_gather"

// What all members of a call have to say alike. `what` is compared in full and printed, never kept: made beforehand.
struct CallSignature {
    CallKind kind = CallKind::kBarrier;
    std::size_t bytes = 0;
    std::uint32_t root = 0;
    std::string_view what;
    friend bool operator==(const CallSignature&, const CallSignature&) = default;
};

// The k-th call of one member meets the k-th of every other. What a member leaves for the others before meet() is
// theirs to look at until they leave(): nobody comes to the next call before all have left this one.
//
// When signatures differ every member throws an InternalError naming both calls. When the run fails, meet() and leave()
// throw RunStopped, but not before those that have met and not left yet are done: what they look at may lie on the
// stack of the one that throws. After either a meeting is of no more use.
class Meeting {
public:
    // Something that is wrong with the call although all signatures agree, or nothing. Asked by every member when all
    // have met; has to say the same to each.
    using FindFault = std::function<std::optional<std::string>()>;

    // `name` is for messages: "group 2". Refers to the monitor.
    Meeting(std::string name, std::vector<Rank> members, RunMonitor& monitor);

    std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
    std::uint32_t member_of(Rank rank) const;  // InternalError when it is not a member
    Rank rank_of(std::uint32_t member) const { return members_[member].rank; }

    // Returns when all members have come. Allocates nothing, if there is no fault.
    void meet(std::uint32_t member, const CallSignature& signature, const FindFault& find_fault = {});
    // Returns when all members have called it.
    void leave(std::uint32_t member);

    // For find_fault, between meet() and leave(): "group 2, call 17: rank 4 calls all_reduce of 4096 bytes for ...".
    std::string describe_call(std::uint32_t member) const;

private:
    struct Member {
        Rank rank{};
        std::uint64_t calls = 0;  // begun
        CallSignature signature;
    };

    void wait(Signal& signal, std::uint64_t target);
    std::optional<std::string> find_difference() const;
    std::string describe(std::uint32_t member) const;

    std::string name_;
    RunMonitor& monitor_;
    std::vector<Member> members_;
    Signal arrived_, left_;               // calls begun and ended, of all members together
    Signal checked_;                      // calls whose partners have been compared
    std::atomic<std::uint32_t> busy_{0};  // members that look at what others have left for them now
};

}  // namespace sluice

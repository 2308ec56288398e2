// Messages between ranks of one process that share a GPU, or GPUs that reach each other's memory:
// runtime/communicator.h for work on streams.
//
// Threads of the members meet while they issue, compare what they call, and exchange where their memory is and two
// events each: `ready`, when the member's stream has come to the call, and `done`, when what it put there for the call
// is over. Every stream waits for all `ready`, moves what its member gets, and then waits for all `done`: so partners
// start together and end together, and what follows on a stream may use its memory again. Threads block until all
// members have made their call; streams wait only for work that is on other streams already, and no kernel waits for
// another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/stream_work.h"
#include "runtime/meeting.h"

namespace sluice::cuda {

struct StreamCall {
    std::uint32_t member = 0;
    std::string_view what;
    Stream stream = nullptr;
};

// Same inputs, same bits: sums are formed in the order of the members. What the calls mean is in transport.h; errors
// are those of a meeting. Allocates nothing in a call.
class StreamCommunicator {
public:
    // Refers to monitor and work.
    StreamCommunicator(std::string name, std::vector<Rank> members, RunMonitor& monitor, StreamWork& work);

    std::uint32_t size() const { return meeting_.size(); }
    std::uint32_t member_of(Rank rank) const { return meeting_.member_of(rank); }

    // Before the first call, with the member's GPU current.
    void join(std::uint32_t member);

    void all_gather(const StreamCall&, std::span<const std::byte> mine, std::span<std::byte> all);
    void reduce_scatter(const StreamCall&, ElementType, std::span<const std::byte> all, std::span<std::byte> mine);
    void all_gather_shares(const StreamCall&, ElementType, std::span<const std::span<std::byte>> pieces);
    void reduce_scatter_shares(const StreamCall&, ElementType, std::span<const std::span<std::byte>> pieces);
    void all_reduce(const StreamCall&, ElementType, std::span<const std::span<std::byte>> pieces);
    void all_to_all(const StreamCall&, std::span<const std::span<const std::byte>> out,
                    std::span<const std::span<std::byte>> in);
    // From member 0 to member 1 of a group of two.
    void send(const StreamCall&, std::span<const std::byte> bytes);
    void receive(const StreamCall&, std::span<std::byte> bytes);

private:
    // What a member brings to a call. Kept until all have left it.
    struct Slot {
        std::span<const std::byte> in;                     // all_gather: mine; reduce_scatter: all; send
        std::size_t part = 0, whole = 0;                   // all_gather, reduce_scatter: bytes of mine and of all
        std::span<const std::span<std::byte>> pieces;      // all_reduce, shares
        std::span<const std::span<const std::byte>> outs;  // all_to_all
        std::span<const std::span<std::byte>> ins;         // all_to_all
    };
    struct Member {
        Slot slot;
        Event ready = nullptr, done = nullptr;
    };

    // Between the two the member's stream may read and write what the members have brought.
    void begin(const StreamCall& call, const CallSignature& signature, const Slot& slot,
               const Meeting::FindFault& find_fault = {});
    void end(const StreamCall& call);
    std::optional<std::string> find_wrong_parts() const;
    std::optional<std::string> find_wrong_pieces() const;
    std::optional<std::string> find_wrong_exchange() const;
    void copy(Stream stream, std::span<const std::byte> from, std::byte* to);
    std::span<std::byte> share_of(std::uint32_t of, ElementType type, std::uint32_t member, std::size_t piece) const;
    void sum_share(const StreamCall& call, ElementType type, std::size_t piece);

    Meeting meeting_;
    StreamWork& work_;
    std::vector<Member> members_;
};

}  // namespace sluice::cuda

// Holds a receive back until its send has begun. A kernel of NCCL that waits for a partner sits on many multiprocessors
// all the while: products beside one take up to a fifth longer (validation/h200.md, "Two GPUs over NCCL"). So the
// stream waits instead, for a flag in host memory that the sender's stream sets (runtime/cuda/stream_flags.h). Between
// processes of different hosts, and where the driver has no such flags, there are no gates, and kernels wait.
//
// Why streams cannot block each other for ever: a rank that comes to a receive has issued all that the send needs of it
// (runtime/issue_order.h walks the programs so). What the stream waits for is never behind it on its GPU. Nothing is
// held back in the first step: there libraries load their kernels and NCCL connects, and both may wait for the whole
// GPU (tests/runtime/cuda/waiting_stream_test.cc).
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/stream_flags.h"
#include "runtime/nccl/message_ends.h"
#include "runtime/rendezvous/rendezvous.h"

namespace sluice::cuda {

// Of one channel. The sender's thread and the receiver's may call at the same time.
class ReceiveGate {
public:
    ReceiveGate(const StreamFlags& flags, Flag& flag) : flags_(flags), flag_(flag) {}

    // The k-th receive waits for the k-th send, unless it is let pass.
    void before_send(Stream stream) { flags_.set(stream, &flag_, ++sent_); }
    void before_receive(Stream stream) { flags_.wait(stream, &flag_, ++received_); }
    void let_receive_pass() { ++received_; }

    // Lets every receive pass that was issued.
    void open() noexcept { flag_.value.store(received_ + kFar); }

private:
    static constexpr std::uint32_t kFar = std::uint32_t{1} << 30;

    const StreamFlags& flags_;
    Flag& flag_;
    std::atomic<std::uint32_t> sent_{0}, received_{0};
};

class ReceiveGates {
public:
    // Called by all processes of the job with the same channels, groups among them (which have no gates); `flags` may
    // be null. Throws the verdict of a job that fails.
    ReceiveGates(Rendezvous& job, const StreamFlags* flags, const std::vector<MessageEnds>& ends,
                 std::span<const Rank> local);
    ~ReceiveGates();
    ReceiveGates(const ReceiveGates&) = delete;
    ReceiveGates& operator=(const ReceiveGates&) = delete;

    // Of the channel that is ends[k]; null where there is none.
    ReceiveGate* at(std::size_t k);
    bool any() const { return !gates_.empty(); }
    // After a failure, by any thread: lets all streams pass. Again and again until none waits: those that go on set
    // their flags as if nothing had happened.
    void open() noexcept;
    // Waits for the current GPU.
    void drain() const {
        if (any()) flags_->drain();
    }

private:
    class FlagPage;

    const StreamFlags* const flags_;
    std::map<std::uint32_t, std::unique_ptr<FlagPage>> pages_;  // by process; null: not to be had
    std::map<std::size_t, ReceiveGate> gates_;                  // by channel
};

}  // namespace sluice::cuda

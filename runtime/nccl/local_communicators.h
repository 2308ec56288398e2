// All communicators of this process with the gates of their receives, and the thread that looks after them.
//
// When the run fails all are aborted at once, each by a thread of its own. One after another they may never end: an
// abort also frees memory, which waits for every kernel of its GPU, and so for those of communicators whose turn has
// not come. At once, every kernel is told to stop before any abort begins to wait. Gates are opened meanwhile, and
// until nothing is left on the GPUs: an abort would wait for streams that wait at one, too.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/nccl/nccl_communicator.h"
#include "runtime/nccl/nccl_functions.h"
#include "runtime/nccl/receive_gates.h"
#include "runtime/run_monitor.h"

namespace sluice::cuda {

class LocalCommunicators {
public:
    LocalCommunicators() = default;
    ~LocalCommunicators();  // aborts all that are left, at once: after a failure kernels may still wait for a partner
    LocalCommunicators(const LocalCommunicators&) = delete;
    LocalCommunicators& operator=(const LocalCommunicators&) = delete;

    // Before watch(). It stays where it is.
    NcclCommunicator& add(const NcclFunctions& nccl, const std::string& name, std::uint32_t member,
                          RunMonitor& monitor) {
        return all_.emplace_back(nccl, name, member, monitor);
    }

    // Once, before watch(); as of ReceiveGates. The local ranks' devices outlive this.
    ReceiveGates& add_gates(Rendezvous& job, const StreamFlags* flags, const std::vector<MessageEnds>& ends,
                            const TransportParts& parts) {
        devices_.assign(parts.devices.begin(), parts.devices.end());
        return gates_.emplace(job, flags, ends, parts.local);
    }

    // From now on a communicator's failure is one of the run, and a run that has failed, or was stopped, aborts all.
    void watch(RunMonitor& monitor);

private:
    void abort_all();
    void keep_gates_open();
    void drain() noexcept;

    std::vector<const DevicePart*> devices_;
    std::optional<ReceiveGates> gates_;
    std::deque<NcclCommunicator> all_;
    std::jthread gate_keeper_, watch_;
};

}  // namespace sluice::cuda

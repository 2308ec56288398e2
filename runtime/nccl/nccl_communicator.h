// One rank's membership of one NCCL communicator: calls that can be called back, and failures by name.
//
// The communicator is non-blocking: a call returns before it is on its stream and is then asked about, so that a
// partner that is lost holds up nobody for ever. The rank's thread calls; a watching thread looks at its state and
// aborts it when the run fails, which also ends kernels that wait for the partner.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "runtime/nccl/nccl_functions.h"
#include "runtime/run_monitor.h"

namespace sluice::cuda {

class NcclCommunicator {
public:
    // `name` is for messages: "group 2". Refers to the monitor and the functions.
    NcclCommunicator(const NcclFunctions& nccl, std::string name, std::uint32_t member, RunMonitor& monitor)
        : nccl_(nccl), name_(std::move(name)), member_(member), monitor_(monitor) {}
    ~NcclCommunicator() { abort(); }
    NcclCommunicator(const NcclCommunicator&) = delete;
    NcclCommunicator& operator=(const NcclCommunicator&) = delete;

    std::uint32_t member() const { return member_; }

    // On the current GPU; members of one process begin within one group of calls. Throws EnvironmentError.
    void begin(const NcclId& id, std::uint32_t members);
    // Until all members are there. `interrupt` is called meanwhile and may throw.
    void finish(const std::function<void()>& interrupt);

    // Issues a call: `issue(comm)` returns NCCL's code. Returns when it is on its stream. Throws EnvironmentError with
    // what NCCL says, or RunStopped.
    template <class Issue>
    void call(std::string_view what, const Issue& issue) {
        int code = kNcclSuccess;
        {
            const std::lock_guard lock(mutex_);
            expect_open();
            code = issue(comm_);
        }
        settle(code, what);
    }

    // By the watching thread: makes a failure of the communicator one of the run. Never waits.
    void check();
    // By any thread, once; later calls return at once. Waits for every kernel of the GPU, also for those of other
    // communicators: several are aborted at the same time (local_communicators.h).
    void abort();

private:
    void expect_open() const;
    void settle(int code, std::string_view what);
    int state();  // with the lock
    std::string failure(int code, std::string_view what) const;

    const NcclFunctions& nccl_;
    const std::string name_;
    const std::uint32_t member_;
    RunMonitor& monitor_;
    std::mutex mutex_;
    ncclComm* comm_ = nullptr;
    bool aborted_ = false;
};

}  // namespace sluice::cuda

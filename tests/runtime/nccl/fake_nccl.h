// NCCL on host memory: members that are threads post their calls; the last one carries a call out for all. Until then,
// and a few looks longer, it is in progress, as in the library's non-blocking mode. An abort waits, as the library's
// does, for all that is under way on its communicator's GPU: until calls of others there are done or aborted, too.
#pragma once

#include <cstddef>

#include "runtime/cuda/device_part.h"
#include "runtime/nccl/nccl_functions.h"

namespace sluice::cuda {

const NcclFunctions& fake_nccl();

void reset_fake_nccl();
struct FakeNcclCounts {
    std::size_t begun = 0, aborted = 0;  // memberships
    std::size_t stuck = 0;               // aborts that gave up after some seconds: the library's would wait for ever
};
FakeNcclCounts fake_nccl_counts();
std::size_t fake_nccl_calls_under_way();  // of all members: begun, and neither done nor aborted
// Of the calling thread: calls are collected until it ends.
bool fake_nccl_group_is_open();
// From now on every communicator says this of its state.
void break_fake_nccl(int code);

// A GPU that only has a number.
class FakeDevice : public DevicePart {
public:
    explicit FakeDevice(int device) : device_(device) {}
    void make_current() const override;
    Stream new_stream() const override { return nullptr; }
    int device() const override { return device_; }

private:
    int device_;
};

}  // namespace sluice::cuda

// NCCL on host memory: members that are threads post their calls; the last one carries a call out for all. Until then,
// and a few looks longer, it is in progress, as in the library's non-blocking mode.
#pragma once

#include <cstddef>

#include "runtime/cuda/device_part.h"
#include "runtime/nccl/nccl_functions.h"

namespace sluice::cuda {

const NcclFunctions& fake_nccl();

void reset_fake_nccl();
struct FakeNcclCounts {
    std::size_t begun = 0, aborted = 0;  // memberships
};
FakeNcclCounts fake_nccl_counts();
// Of the calling thread: calls are collected until it ends.
bool fake_nccl_group_is_open();
// From now on every communicator says this of its state.
void break_fake_nccl(int code);

// A GPU that only has a number.
class FakeDevice : public DevicePart {
public:
    explicit FakeDevice(int device) : device_(device) {}
    void make_current() const override {}
    Stream new_stream() const override { return nullptr; }
    int device() const override { return device_; }

private:
    int device_;
};

}  // namespace sluice::cuda

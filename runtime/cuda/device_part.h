// What a rank runs on: a GPU, or a part of one.
#pragma once

#include <functional>
#include <memory>

#include "base/ids.h"
#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

class DevicePart {
public:
    virtual ~DevicePart() = default;

    // For the calling thread: before it calls CUDA for the rank. Cheap when it is already.
    virtual void make_current() const = 0;
    // A stream whose kernels run on this part, which does not wait for the default stream; the caller's to destroy with
    // cudaStreamDestroy. Requires: current.
    virtual Stream new_stream() const = 0;
    // The GPU that it is of: parts of one GPU share its memory.
    virtual int device() const = 0;
    // Multiprocessors that kernels find here; 0: all of the GPU's.
    virtual int multiprocessors() const { return 0; }
};

class WholeDevice : public DevicePart {
public:
    explicit WholeDevice(int device = 0) : device_(device) {}
    void make_current() const override;
    Stream new_stream() const override;
    int device() const override { return device_; }

private:
    int device_;
};

// By rank. Called once for every local rank, in order.
using DevicePartMaker = std::function<std::shared_ptr<const DevicePart>(Rank)>;

}  // namespace sluice::cuda

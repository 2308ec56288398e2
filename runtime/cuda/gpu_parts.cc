#include "runtime/cuda/gpu_parts.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/driver_function.h"

namespace sluice::cuda {
namespace {

template <class Function>
Function* driver_function(const char* name, unsigned version) {
    void* const found = find_driver_function(name, version);
    if (found == nullptr)
        throw EnvironmentError(fmt::format(
            "the GPU cannot be cut into parts: the driver has no {}, expected one for CUDA 12.4 or newer", name));
    return reinterpret_cast<Function*>(found);
}

struct GreenContexts {
    decltype(cuGetErrorString)* error_string = driver_function<decltype(cuGetErrorString)>("cuGetErrorString", 6000);
    decltype(cuDeviceGet)* device_get = driver_function<decltype(cuDeviceGet)>("cuDeviceGet", 2000);
    decltype(cuDeviceGetDevResource)* resource =
        driver_function<decltype(cuDeviceGetDevResource)>("cuDeviceGetDevResource", 12040);
    decltype(cuDevSmResourceSplitByCount)* split =
        driver_function<decltype(cuDevSmResourceSplitByCount)>("cuDevSmResourceSplitByCount", 12040);
    decltype(cuDevResourceGenerateDesc)* describe =
        driver_function<decltype(cuDevResourceGenerateDesc)>("cuDevResourceGenerateDesc", 12040);
    decltype(cuGreenCtxCreate)* create = driver_function<decltype(cuGreenCtxCreate)>("cuGreenCtxCreate", 12040);
    decltype(cuGreenCtxDestroy)* destroy = driver_function<decltype(cuGreenCtxDestroy)>("cuGreenCtxDestroy", 12040);
    decltype(cuGreenCtxStreamCreate)* new_stream =
        driver_function<decltype(cuGreenCtxStreamCreate)>("cuGreenCtxStreamCreate", 12050);

    void check(CUresult code, const char* what) const {
        if (code == CUDA_SUCCESS) return;
        const char* reason = nullptr;
        error_string(code, &reason);
        throw EnvironmentError(fmt::format("{}: the driver says: {}", what, reason == nullptr ? "?" : reason));
    }
};

// The primary context stays current: its modules and memory are the parts' too, and work goes where its stream belongs.
class GreenPart : public DevicePart {
public:
    GreenPart(const GreenContexts& driver, CUdevResource resource, int device)
        : driver_(driver), device_(device), multiprocessors_(static_cast<int>(resource.sm.smCount)) {
        CUdevResourceDesc description = nullptr;
        CUdevice handle = 0;
        driver_.check(driver_.device_get(&handle, device), "a GPU");
        driver_.check(driver_.describe(&description, &resource, 1), "multiprocessors of a part of the GPU");
        driver_.check(driver_.create(&context_, description, handle, CU_GREEN_CTX_DEFAULT_STREAM),
                      "a context on a part of the GPU");
    }
    ~GreenPart() override { driver_.destroy(context_); }
    GreenPart(const GreenPart&) = delete;
    GreenPart& operator=(const GreenPart&) = delete;

    void make_current() const override { check(cudaSetDevice(device_), "choose a GPU"); }
    Stream new_stream() const override {
        CUstream stream = nullptr;
        driver_.check(driver_.new_stream(&stream, context_, CU_STREAM_NON_BLOCKING, 0),
                      "a stream of a part of the GPU");
        return stream;
    }
    int device() const override { return device_; }
    int multiprocessors() const override { return multiprocessors_; }

private:
    const GreenContexts driver_;
    const int device_, multiprocessors_;
    CUgreenCtx context_ = nullptr;
};

std::vector<std::shared_ptr<const DevicePart>> cut(int parts, int device) {
    check(cudaSetDevice(device), "choose a GPU");
    check(cudaFree(nullptr), "start the GPU");  // its primary context, which all parts share
    const GreenContexts driver;
    CUdevice handle = 0;
    driver.check(driver.device_get(&handle, device), "a GPU");
    CUdevResource all{};
    driver.check(driver.resource(handle, &all, CU_DEV_RESOURCE_TYPE_SM), "the GPU's multiprocessors");
    const int each =
        multiprocessors_of_part(static_cast<int>(all.sm.smCount), parts, static_cast<int>(all.sm.minSmPartitionSize),
                                static_cast<int>(all.sm.smCoscheduledAlignment));
    if (each == 0)
        throw InputError(fmt::format("got {} parts of a GPU with {} multiprocessors, expected parts of at least {}",
                                     parts, all.sm.smCount, all.sm.minSmPartitionSize));
    std::vector<CUdevResource> resources(static_cast<std::size_t>(parts));
    auto found = static_cast<unsigned>(parts);
    driver.check(driver.split(resources.data(), &found, &all, nullptr, 0, static_cast<unsigned>(each)),
                 "the GPU cannot be cut into parts");
    if (found != static_cast<unsigned>(parts))
        throw EnvironmentError(fmt::format("the driver cuts the GPU into {} parts of {} multiprocessors, expected {}",
                                           found, each, parts));
    std::vector<std::shared_ptr<const DevicePart>> made;
    for (const CUdevResource& resource : resources)
        made.push_back(std::make_shared<const GreenPart>(driver, resource, device));
    return made;
}

}  // namespace

int multiprocessors_of_part(int all, int parts, int least, int step) {
    if (parts < 1) return 0;
    const int each = all / parts / step * step;
    return each >= least ? each : 0;
}

DevicePartMaker gpu_parts(int parts, int device) {
    auto made = std::make_shared<std::vector<std::shared_ptr<const DevicePart>>>();
    return [parts, device, made](Rank rank) {
        if (index(rank) >= static_cast<std::size_t>(parts))
            throw InputError(
                fmt::format("got rank {} on a GPU in {} parts, expected one part per rank", index(rank), parts));
        if (made->empty()) *made = cut(parts, device);
        return (*made)[index(rank)];
    };
}

void raise_stream_connections() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

}  // namespace sluice::cuda

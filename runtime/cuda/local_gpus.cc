#include "runtime/cuda/local_gpus.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/cuda/check.h"

namespace sluice::cuda {

int local_gpu(std::uint32_t process, std::size_t each, std::size_t position, int visible) {
    const auto seen = static_cast<std::size_t>(visible);
    const std::size_t first = seen == each ? 0 : process * each;
    if (first + each > seen)
        throw InputError(
            fmt::format("process {} of this machine needs GPUs {} to {}, got {}: every rank has a GPU to itself",
                        process, first, first + each - 1, seen));
    return static_cast<int>(first + position);
}

DevicePartMaker local_gpus(std::uint32_t process, std::vector<Rank> local) {
    return [process, local = std::move(local)](Rank rank) -> std::shared_ptr<const DevicePart> {
        int visible = 0;
        check(cudaGetDeviceCount(&visible), "count GPUs");
        const auto position = static_cast<std::size_t>(std::find(local.begin(), local.end(), rank) - local.begin());
        return std::make_shared<const WholeDevice>(local_gpu(process, local.size(), position, visible));
    };
}

}  // namespace sluice::cuda

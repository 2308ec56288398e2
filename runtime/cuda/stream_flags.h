// Numbers in host memory that streams set and wait for. A stream that waits takes no multiprocessor: the GPU's front
// end looks at the number. As plain functions, so that what uses them is tested without a GPU.
//
// A stream that waits may hold up others of its GPU (two that share a queue of the hardware). So what makes the number
// rise must not need anything that is put on a stream of the same GPU after the wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

struct alignas(64) Flag {
    std::atomic<std::uint32_t> value;
};

struct StreamFlags {
    // Makes whole pages of flags known to every GPU; false where the system does not allow it.
    bool (*pin)(std::span<std::byte> pages) = nullptr;
    void (*unpin)(std::span<std::byte> pages) noexcept = nullptr;  // no stream may still come there
    // When the stream comes there the flag becomes `value`.
    void (*set)(Stream, Flag*, std::uint32_t value) = nullptr;
    // The stream goes on when the flag has reached `value`: is at most 2^31 above it, round the end of the numbers.
    void (*wait)(Stream, const Flag*, std::uint32_t value) = nullptr;
    // Returns when the current GPU has nothing left to do.
    void (*drain)() = nullptr;
};

// The driver's; null where it has none.
const StreamFlags* stream_flags();

}  // namespace sluice::cuda

// Host memory that the GPU's copy engines can reach: one mapping of exactly the bytes asked for.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "base/units.h"

namespace sluice::cuda {

// Told how far pinning has come, from the thread that constructs.
using PinningProgress = std::function<void(Bytes done, Bytes all)>;

class PinnedMemory {
public:
    PinnedMemory() = default;
    // Huge pages where the system has them, touched by all cores at once (so that the pages are those of the NUMA node
    // that this process is bound to), then registered in pieces: several times faster than one cudaHostAlloc, and one
    // registration of 512 GiB of small pages fails with some drivers. Throws EnvironmentError that says *host* when
    // memory is short; it asks before it touches.
    PinnedMemory(Bytes bytes, const std::string& name, const PinningProgress& progress = {});
    ~PinnedMemory();
    PinnedMemory(PinnedMemory&& other) noexcept;
    PinnedMemory& operator=(PinnedMemory&& other) noexcept;

    std::span<std::byte> bytes() const { return bytes_; }

    // Registered in pieces of this size from the begin on: a copy must not reach over the end of one (CUDA refuses it).
    static constexpr Bytes kPiece = 64_GiB;

private:
    void touch_all(const std::string& name, const PinningProgress& progress);
    void register_all(const std::string& name);
    void release();

    std::byte* mapping_ = nullptr;
    std::size_t mapped_ = 0, registered_ = 0;
    std::span<std::byte> bytes_;
};

}  // namespace sluice::cuda

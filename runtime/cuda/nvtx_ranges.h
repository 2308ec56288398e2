// Named ranges of a thread for profilers (Nsight Systems), in the NVTX domain "sluice".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// Of NVTX, whose headers stay out of ours.
struct nvtxDomainRegistration_st;
struct nvtxStringRegistration_st;

namespace sluice::cuda {

class NvtxRanges {
public:
    // Registers `name(0)` to `name(count - 1)`, so that no range formats or copies anything. Where no profiler listens
    // no name is asked for, and ranges cost a comparison.
    NvtxRanges(std::size_t count, const std::function<std::string(std::size_t)>& name);

    bool listened_to() const { return domain_ != nullptr; }

    // On the calling thread, from here to the end of its life. Lies in those that the thread has begun before.
    class Range {
    public:
        Range(const Range&) = delete;
        Range& operator=(const Range&) = delete;
        ~Range() {
            if (domain_ != nullptr) end();
        }

    private:
        friend class NvtxRanges;
        explicit Range(nvtxDomainRegistration_st* domain) : domain_(domain) {}
        void end();
        nvtxDomainRegistration_st* domain_;
    };

    // `payload`: a number that the profiler shows with it.
    [[nodiscard]] Range begin(std::size_t which, std::uint64_t payload) const {
        if (domain_ != nullptr) push(which, payload);
        return Range(domain_);
    }

private:
    void push(std::size_t which, std::uint64_t payload) const;

    nvtxDomainRegistration_st* domain_ = nullptr;
    std::vector<nvtxStringRegistration_st*> names_;
};

}  // namespace sluice::cuda

#include "runtime/cuda/nvtx_ranges.h"

#include <nvtx3/nvToolsExt.h>

namespace sluice::cuda {
namespace {

// One of the process. Null where no profiler has put itself behind NVTX.
nvtxDomainHandle_t sluice_domain() {
    static const nvtxDomainHandle_t domain = nvtxDomainCreateA("sluice");
    return domain;
}

}  // namespace

NvtxRanges::NvtxRanges(std::size_t count, const std::function<std::string(std::size_t)>& name)
    : domain_(sluice_domain()) {
    if (domain_ == nullptr) return;
    names_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) names_.push_back(nvtxDomainRegisterStringA(domain_, name(i).c_str()));
}

void NvtxRanges::push(std::size_t which, std::uint64_t payload) const {
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    range.message.registered = names_[which];
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    range.payload.ullValue = payload;
    nvtxDomainRangePushEx(domain_, &range);
}

void NvtxRanges::Range::end() { nvtxDomainRangePop(domain_); }

}  // namespace sluice::cuda

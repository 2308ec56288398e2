// Ranges as a profiler gets them: this program is its own profiler, by NVTX's static injection. Needs no device.
#include "runtime/cuda/nvtx_ranges.h"

#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <deque>
#include <string>
#include <vector>

#include "traces/event_name.h"

namespace sluice::cuda {
namespace {

// What NVTX was told, in order: "+NAME payload" for a begin, "-" for an end.
struct Listener {
    std::deque<std::string> names;  // of domains and strings; a handle is a pointer into it
    std::vector<std::string> calls;
};

Listener& listener() {
    static Listener all;
    return all;
}

template <class Handle>
Handle keep(const char* name) {
    return reinterpret_cast<Handle>(&listener().names.emplace_back(name));
}
template <class Handle>
const std::string& kept(Handle handle) {
    return *reinterpret_cast<const std::string*>(handle);
}

nvtxDomainHandle_t create_domain(const char* name) { return keep<nvtxDomainHandle_t>(name); }
nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) { return keep<nvtxStringHandle_t>(text); }

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
    EXPECT_EQ(kept(domain), "sluice");
    EXPECT_EQ(range->messageType, NVTX_MESSAGE_TYPE_REGISTERED);
    EXPECT_EQ(range->payloadType, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
    listener().calls.push_back("+" + kept(range->message.registered) + " " + std::to_string(range->payload.ullValue));
    return 0;
}

int pop(nvtxDomainHandle_t domain) {
    EXPECT_EQ(kept(domain), "sluice");
    listener().calls.push_back("-");
    return 0;
}

int attach(NvtxGetExportTableFunc_t tables) {
    const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable core2 = nullptr;
    unsigned int size = 0;
    if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &size) == 0) return 0;
    *core2[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create_domain);
    *core2[NVTX_CBID_CORE2_DomainRegisterStringA] = reinterpret_cast<NvtxFunctionPointer>(register_string);
    *core2[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
    *core2[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
    return 1;
}

Op op(LaneKind lane, Phase phase, std::int32_t layer, std::int32_t subsequence) {
    Op made;
    made.lane.kind = lane;
    made.tag.phase = phase, made.tag.layer = layer, made.tag.subsequence = subsequence;
    return made;
}

TEST(NvtxRanges, AreNamedAsTracesNameOpsAndNestByLife) {
    InitializeInjectionNvtx2_fnptr = attach;  // before the process's first call of NVTX, which looks for it
    const std::vector<Op> ops = {
        op(LaneKind::kCompute, Phase::kForward, 3, 2), op(LaneKind::kCopyOut, Phase::kForward, 3, 2),
        op(LaneKind::kCopyIn, Phase::kBackward, 3, 2), op(LaneKind::kCompute, Phase::kOptimizer, -1, -1)};
    const NvtxRanges ranges(ops.size(), [&](std::size_t i) { return event_name(ops[i]); });
    ASSERT_TRUE(ranges.listened_to());
    {
        const NvtxRanges::Range outer = ranges.begin(0, 70);
        const NvtxRanges::Range inner = ranges.begin(1, 71);
    }
    for (std::size_t i = 2; i < ops.size(); ++i) const NvtxRanges::Range one = ranges.begin(i, 70 + i);
    EXPECT_EQ(listener().calls, (std::vector<std::string>{"+forward 2 layer 3 70", "+offload 2 layer 3 71", "-", "-",
                                                          "+reload 2 layer 3 72", "-", "+optimizer 73", "-"}));
    EXPECT_EQ(listener().names.size(), 1 + ops.size()) << "a domain, and each name once";
}

}  // namespace
}  // namespace sluice::cuda

#include "runtime/share_states.h"

#include <algorithm>

#include "runtime/member_share.h"

namespace sluice {
namespace {

bool goes_on(const SharedRun& run, const ParameterSlice& before, const ParameterSlice& slice) {
    return run.part == slice.part && before.replicated == slice.replicated && !before.table && !slice.table;
}

}  // namespace

void share_states(ParameterLayout& layout, std::int64_t replica, std::int64_t replicas) {
    layout.shared.clear();
    layout.state_elements = 0;
    for (std::size_t first = 0, end = 0; first < layout.slices.size(); first = end) {
        SharedRun run{layout.slices[first].part, layout.slices[first].offset, 0};
        do run.elements += layout.slices[end++].held();
        while (end < layout.slices.size() && goes_on(run, layout.slices[end - 1], layout.slices[end]));
        const MemberShare share = member_share(static_cast<std::size_t>(run.elements),
                                               static_cast<std::size_t>(replica), static_cast<std::size_t>(replicas));
        const std::int64_t begin = run.offset + static_cast<std::int64_t>(share.first);
        const std::int64_t stop = begin + static_cast<std::int64_t>(share.count);
        for (std::size_t k = first; k < end; ++k) {
            ParameterSlice& slice = layout.slices[k];
            const std::int64_t from = std::max(begin, slice.offset);
            slice.stepped = std::max<std::int64_t>(0, std::min(stop, slice.offset + slice.held()) - from);
            slice.first_stepped = slice.stepped == 0 ? 0 : from - slice.offset;
            slice.state = slice.stepped == 0 ? 0 : layout.state_elements + (from - begin);
        }
        layout.state_elements += (run.elements + replicas - 1) / replicas;
        layout.shared.push_back(run);
    }
}

}  // namespace sluice

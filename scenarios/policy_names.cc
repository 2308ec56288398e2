#include "scenarios/policy_names.h"

#include <fmt/format.h>

namespace sluice {

std::string_view name(SequenceParallelKind kind) {
    return kind == SequenceParallelKind::kUlysses ? "ulysses" : "megatron";
}

std::string_view name(PartitionKind kind) {
    switch (kind) {
        case PartitionKind::kFlops:
            return "flops";
        case PartitionKind::kCost:
            return "cost";
        case PartitionKind::kEqual:
            return "equal";
        case PartitionKind::kList:
            return "list";
    }
    return "?";
}

std::string name(const PlacementPolicy& placement) {
    struct Name {
        std::string operator()(KeepAll) const { return "none"; }
        std::string operator()(OffloadAll) const { return "full"; }
        std::string operator()(OffloadRatio r) const { return fmt::format("ratio {}", r.alpha); }
        std::string operator()(AdaptiveOffload) const { return "adaptive"; }
        std::string operator()(RecomputeAll) const { return "recompute"; }
        std::string operator()(ThreeWay) const { return "three-way"; }
    };
    return std::visit(Name{}, placement);
}

std::string_view name(RecomputeScope scope) { return scope == RecomputeScope::kLayer ? "layer" : "all_but_attention"; }

std::string_view name(TraversalOrder order) { return order == TraversalOrder::kLayerMajor ? "layer" : "subsequence"; }

}  // namespace sluice

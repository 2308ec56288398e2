#include "planner/split_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "models/kernel_cost.h"

namespace sluice {
namespace {

Seconds chain_time(const Scenario& s, const KernelChain& chain) { return compute_time(Compute{chain}, s.calibration); }

Seconds layer_time(const Scenario& s, Subsequence sub) {
    const LayerForward f = layer_forward(s, sub);
    const LayerBackward b = layer_backward(s, sub);
    Seconds sum{};
    for (const KernelChain* chain : {&f.norm1, &f.attention, &f.norm2, &f.mlp, &f.residual, &b.mlp_data, &b.mlp_weight,
                                     &b.norm2, &b.attention_data, &b.attention_weight, &b.norm1})
        sum += chain_time(s, *chain);
    return sum;
}

// What the ends do besides their layers, in layers.
struct Ends {
    double embedding = 0, head = 0;
};

Ends ends_in_layers(const Scenario& s, const std::vector<Subsequence>& subsequences) {
    Seconds layer{}, embedding{}, head{};
    for (const Subsequence sub : subsequences) {
        layer += layer_time(s, sub);
        embedding += chain_time(s, embedding_forward(s, sub)) + chain_time(s, embedding_backward(s, sub));
        const HeadKernels kernels = head_kernels(s, sub);
        for (const KernelChain* chain : {&kernels.norm, &kernels.loss, &kernels.norm_backward})
            head += chain_time(s, *chain);
    }
    return {embedding / layer, head / layer};
}

using Counts = std::vector<std::int64_t>;  // layers by stage

double heaviest(const Counts& counts, const Ends& ends) {
    double most = 0;
    for (std::size_t s = 0; s < counts.size(); ++s)
        most = std::max(most, static_cast<double>(counts[s]) + (s == 0 ? ends.embedding : 0) +
                                  (s + 1 == counts.size() ? ends.head : 0));
    return most;
}

// Ends that carry less than their share give the rest to the stages between: `first` and `last` layers at the ends, the
// others as even as possible.
Counts split_with_ends(std::int64_t layers, std::int64_t stages, std::int64_t first, std::int64_t last) {
    Counts counts{first};
    const std::int64_t between = stages - 2, rest = layers - first - last;
    for (std::int64_t s = 0; s < between; ++s) counts.push_back(rest / between + (s < rest % between ? 1 : 0));
    counts.push_back(last);
    return counts;
}

Counts even_split(std::int64_t layers, std::int64_t stages) {
    Counts counts;
    for (std::int64_t s = 0; s < stages; ++s) counts.push_back(layers / stages + (s < layers % stages ? 1 : 0));
    return counts;
}

// The lightest split; among equals the one that takes least from the last stage, then from the first. The even one where
// that is less than 1% heavier: finer than a cost model can tell.
Counts lightest_split(std::int64_t layers, std::int64_t stages, const Ends& ends) {
    const Counts even = even_split(layers, stages);
    Counts best = even;
    constexpr double kWorthwhile = 0.99, kRounding = 1 - 1e-9;
    const auto consider = [&](const Counts& counts) {
        if (heaviest(counts, ends) < heaviest(best, ends) * kRounding) best = counts;
    };
    if (stages == 2)
        for (std::int64_t last = even.back(); last >= 1; --last) consider({layers - last, last});
    if (stages > 2)
        for (std::int64_t last = even.back(); last >= 1; --last)
            for (std::int64_t first = even.front(); first >= 1; --first)
                consider(split_with_ends(layers, stages, first, last));
    return heaviest(best, ends) < heaviest(even, ends) * kWorthwhile ? best : even;
}

}  // namespace

std::vector<StagePlan> split_layers(const Scenario& s, const std::vector<Subsequence>& subsequences) {
    const Policy& policy = s.policy;
    SLUICE_CHECK(policy.stage_layers.empty() || static_cast<std::int64_t>(policy.stage_layers.size()) == policy.pp,
                 "a number of layers per stage");
    Counts counts = policy.stage_layers;
    if (counts.empty()) counts = lightest_split(s.model.layers, policy.pp, ends_in_layers(s, subsequences));
    std::vector<StagePlan> plans;
    std::int64_t first = 0;
    for (const std::int64_t layers : counts) {
        plans.emplace_back().first_layer = first;
        plans.back().layers = layers;
        first += layers;
    }
    return plans;
}

std::string split_note(const Scenario& s, const Plan& plan) {
    const auto other = [&](const StagePlan& stage) { return stage.layers != plan.stages.front().layers; };
    if (std::ranges::none_of(plan.stages, other)) return {};
    std::string counts;
    for (const StagePlan& stage : plan.stages) counts += fmt::format("{}{}", counts.empty() ? "" : ", ", stage.layers);
    const Ends ends = ends_in_layers(s, plan.subsequences);
    return fmt::format("stages of {} layers; in time the embedding counts as {:.2f} of one, the head as {:.2f}", counts,
                       ends.embedding, ends.head);
}

}  // namespace sluice

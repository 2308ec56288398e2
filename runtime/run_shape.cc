#include "runtime/run_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"

namespace sluice {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw InputError("this schedule cannot be run: " + what); }

void check_policy(const Scenario& s, const Schedule& schedule) {
    const Policy& p = s.policy;
    if (p.automatic.any()) refuse("the scenario still has open choices, got 'auto', expected the plan's degrees");
    if (p.granularity != Granularity::kLayer)
        refuse("its ops stand for several layers, got granularity stage, expected granularity layer");
    if (p.inventory == Inventory::kPaper)
        refuse("got the paper's inventory of activations, expected runtime or lean");
    if (s.shares(ZeroStage::kGradients))
        refuse(
            fmt::format("got ZeRO stage {}, expected 0 or 1: the runtime shares out the optimizer's states, not "
                        "gradients or weights",
                        static_cast<int>(p.zero)));
    if (schedule.ranks.size() != static_cast<std::size_t>(s.ranks()))
        refuse(fmt::format("got {} ranks, expected the {} of sp {} x pp {} x dp {}", schedule.ranks.size(), s.ranks(),
                           p.sp, p.pp, p.dp));
}

// Ranks are laid out as Megatron does: (stage x dp + replica) x sp + shard.
RankRole role_of(std::size_t rank, const Policy& p) {
    const auto r = static_cast<std::int64_t>(rank);
    RankRole role;
    role.shard = r % p.sp;
    role.replica = r / p.sp % p.dp;
    role.stage = r / (p.sp * p.dp);
    return role;
}

void read_layers(const Schedule& schedule, std::span<const Rank> local, std::vector<RankRole>& ranks) {
    constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
    for (RankRole& role : ranks) role.first_layer = kNone, role.layers = 0;
    std::vector<std::int64_t> last(ranks.size(), -1);
    for (const Op& op : schedule.ops) {
        if (op.tag.layer < 0) continue;
        RankRole& role = ranks[index(op.rank)];
        role.first_layer = std::min<std::int64_t>(role.first_layer, op.tag.layer);
        last[index(op.rank)] = std::max<std::int64_t>(last[index(op.rank)], op.tag.layer);
    }
    for (const Rank rank : local)
        if (last[index(rank)] < 0) refuse(fmt::format("rank {} has no layer", index(rank)));
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (last[r] < 0) ranks[r].first_layer = 0;
        ranks[r].layers = last[r] < 0 ? 0 : last[r] - ranks[r].first_layer + 1;
    }
}

// The forward attention ops of a rank say where the sequence is cut.
std::vector<RunSubsequence> read_subsequences(const Scenario& s, const Schedule& schedule, Rank rank) {
    std::vector<RunSubsequence> found;
    for (const Op& op : schedule.ops) {
        if (op.rank != rank || op.tag.function != Function::kAttention || op.tag.phase != Phase::kForward) continue;
        const auto* work = std::get_if<Compute>(&op.work);
        if (work == nullptr || op.tag.subsequence < 0) continue;
        for (const Kernel& kernel : work->kernels) {
            const auto* attention = std::get_if<Attention>(&kernel.shape);
            if (attention == nullptr) continue;
            const auto i = static_cast<std::size_t>(op.tag.subsequence);
            if (i > schedule.ops.size()) refuse(fmt::format("op {} names subsequence {}", index(op.id), i));
            if (found.size() <= i) found.resize(i + 1);
            found[i] = {Tokens{attention->keys - attention->queries}, Tokens{attention->queries}};
        }
    }
    Tokens end{};
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i].begin != end || found[i].length.value < 1)
            refuse(fmt::format("subsequence {} is tokens {} to {}, expected them to begin at {}", i,
                               found[i].begin.value, found[i].begin.value + found[i].length.value, end.value));
        end += found[i].length;
    }
    if (end != s.sequence)
        refuse(fmt::format("its subsequences are {} tokens long, expected the sequence of {}", end.value,
                           s.sequence.value));
    return found;
}

}  // namespace

RunShape read_run_shape(const Scenario& scenario, const Schedule& schedule, std::span<const Rank> local) {
    check_policy(scenario, schedule);
    RunShape shape;
    shape.stages = scenario.policy.pp, shape.replicas = scenario.policy.dp, shape.shards = scenario.policy.sp;
    shape.weight_shards = scenario.weight_shards();
    shape.shares_states = scenario.shares(ZeroStage::kOptimizer);
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r) shape.ranks.push_back(role_of(r, scenario.policy));
    read_layers(schedule, local, shape.ranks);
    shape.subsequences = read_subsequences(scenario, schedule, local.front());
    return shape;
}

}  // namespace sluice

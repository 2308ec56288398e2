// What the messages of bf16 schedules ask of a transport: no device is needed, nothing looks into the memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/communicators.h"
#include "runtime/cuda/transport.h"
#include "runtime/cuda_decoder/bind_op.h"
#include "runtime/decoder/message_operands.h"
#include "runtime/local_ranks.h"
#include "schedule/op_matches.h"
#include "tests/runtime/training_case.h"

namespace sluice::cuda {
namespace {

// Bytes that the rank gives, and those that it gets; lists are added up.
struct Asked {
    CollectiveKind kind = CollectiveKind::kBroadcast;  // of transfers nothing says more than the lane
    GroupId group{};
    ElementType type = ElementType::kBf16;
    Rank peer = kNoRank;
    std::size_t out = 0, in = 0, parts = 1;
};

template <class Spans>
std::size_t total(const Spans& spans) {
    std::size_t bytes = 0;
    for (const auto& span : spans) bytes += span.size();
    return bytes;
}

class RecordingTransport : public Transport {
public:
    std::map<OpId, Asked> calls;
    std::map<OpId, std::string> words;

    void all_gather(const TransportCall& call, GroupId group, std::span<const std::byte> mine,
                    std::span<std::byte> all) override {
        add(call, {CollectiveKind::kAllGather, group, ElementType::kBf16, kNoRank, mine.size(), all.size()});
    }
    void reduce_scatter(const TransportCall& call, GroupId group, ElementType type, std::span<const std::byte> all,
                        std::span<std::byte> mine) override {
        add(call, {CollectiveKind::kReduceScatter, group, type, kNoRank, all.size(), mine.size()});
    }
    void all_gather_shares(const TransportCall& call, GroupId group, ElementType type,
                           std::span<const std::span<std::byte>> pieces) override {
        add(call, {CollectiveKind::kAllGather, group, type, kNoRank, total(pieces), total(pieces), pieces.size()});
    }
    void reduce_scatter_shares(const TransportCall& call, GroupId group, ElementType type,
                               std::span<const std::span<std::byte>> pieces) override {
        add(call, {CollectiveKind::kReduceScatter, group, type, kNoRank, total(pieces), total(pieces), pieces.size()});
    }
    void all_reduce(const TransportCall& call, GroupId group, ElementType type,
                    std::span<const std::span<std::byte>> pieces) override {
        add(call, {CollectiveKind::kAllReduce, group, type, kNoRank, total(pieces), total(pieces), pieces.size()});
    }
    void all_to_all(const TransportCall& call, GroupId group, std::span<const std::span<const std::byte>> out,
                    std::span<const std::span<std::byte>> in) override {
        EXPECT_EQ(out.size(), in.size());
        add(call, {CollectiveKind::kAllToAll, group, ElementType::kBf16, kNoRank, total(out), total(in), out.size()});
    }
    void send(const TransportCall& call, Rank to, std::span<const std::byte> bytes) override {
        add(call, {CollectiveKind::kBroadcast, {}, ElementType::kBf16, to, bytes.size(), 0});
    }
    void receive(const TransportCall& call, Rank from, std::span<std::byte> bytes) override {
        add(call, {CollectiveKind::kBroadcast, {}, ElementType::kBf16, from, 0, bytes.size()});
    }

private:
    void add(const TransportCall& call, const Asked& asked) {
        EXPECT_TRUE(calls.emplace(call.op, asked).second) << "one call for an op";
        words[call.op] = call.what;
    }
};

// A schedule, memory for all its ranks, and what each rank's messages asked of its transport.
struct Messages {
    Scenario scenario;
    Schedule schedule;
    RunShape shape;
    std::vector<RecordingTransport> transports;  // by rank

    explicit Messages(const Scenario& s)
        : scenario(s),
          schedule(lowered_schedule(s)),
          shape(read_run_shape(scenario, schedule, all_ranks(schedule))),
          transports(schedule.ranks.size()) {
        const std::vector<RankArenas> arenas = map_arenas(schedule, all_ranks(schedule));
        const Events no_events(0);
        for (const Op& op : schedule.ops) {
            if (std::holds_alternative<Compute>(op.work) || std::holds_alternative<Copy>(op.work)) continue;
            const ParameterLayout layout = parameter_layout(scenario, shape, op.rank);
            const RankSizes sizes{scenario, shape, schedule, arenas[index(op.rank)], layout, op.rank};
            StreamClock clock(nullptr, no_events, 0, 0);
            bind_message(sizes, transports[index(op.rank)], op)(clock);
            EXPECT_EQ(clock.laps(), 0U);
        }
    }
    const Asked& of(OpId op) const { return transports[index(schedule.ops[index(op)].rank)].calls.at(op); }
    const std::string& words_of(OpId op) const { return transports[index(schedule.ops[index(op)].rank)].words.at(op); }
};

Scenario sharded(Style style, std::int64_t n, std::int64_t sp, std::int64_t pp, std::int64_t dp) {
    Architecture a = tiny_architecture(style);
    a.hidden = 32, a.head_dim = 8;
    Scenario s = training_scenario(a, 64 * n, n, sp, pp, dp);
    s.precision = {DataType::kBf16, DataType::kFp32, DataType::kFp32};
    return s;
}

void expect_fits(const Messages& m, const Op& op) {
    const Asked& asked = m.of(op.id);
    if (const auto* work = std::get_if<Collective>(&op.work)) {
        const std::size_t members = m.schedule.groups[index(work->group)].members.size();
        const auto bytes = static_cast<std::size_t>(work->bytes.value);
        EXPECT_EQ(asked.kind, work->kind);
        EXPECT_EQ(asked.group, work->group);
        const bool in_place = shares_out(op);
        EXPECT_EQ(asked.out, work->kind == CollectiveKind::kAllGather && !in_place ? bytes / members : bytes);
        EXPECT_EQ(asked.in, work->kind == CollectiveKind::kReduceScatter && !in_place ? bytes / members : bytes);
    } else if (const auto* send = std::get_if<Send>(&op.work)) {
        EXPECT_EQ(asked.out, static_cast<std::size_t>(send->bytes.value));
        EXPECT_EQ(asked.peer, op.lane.peer);
    } else {
        EXPECT_EQ(asked.in, static_cast<std::size_t>(std::get<Receive>(op.work).bytes.value));
        EXPECT_EQ(asked.peer, op.lane.peer);
    }
}

struct Cut {
    std::int64_t n, sp, pp, dp;
    SequenceParallelKind kind;
    Style style;
    ZeroStage zero = ZeroStage::kNone;
};

TEST(CudaMessages, AskForTheBytesOfTheScheduleAndAgreeWithTheirPartners) {
    using enum SequenceParallelKind;
    for (const Cut& c :
         {Cut{3, 1, 2, 1, kMegatron, Style::kLlama}, Cut{2, 2, 1, 1, kMegatron, Style::kGpt2},
          Cut{2, 4, 2, 2, kMegatron, Style::kGpt2}, Cut{2, 2, 2, 1, kUlysses, Style::kLlama},
          Cut{2, 4, 1, 2, kUlysses, Style::kNeox}, Cut{2, 2, 2, 2, kMegatron, Style::kGpt2, ZeroStage::kOptimizer},
          Cut{2, 1, 2, 4, kMegatron, Style::kGpt2, ZeroStage::kOptimizer},
          Cut{2, 2, 1, 2, kUlysses, Style::kLlama, ZeroStage::kOptimizer}})
        for (const SavedInputs saved : {SavedInputs::kShard, SavedInputs::kGathered}) {
            SCOPED_TRACE(testing::Message() << "sp " << c.sp << " pp " << c.pp << " dp " << c.dp);
            Scenario s = sharded(c.style, c.n, c.sp, c.pp, c.dp);
            s.policy.sp_kind = c.kind, s.policy.zero = c.zero;
            s.policy.saved_inputs = saved;
            const Messages m(s);
            for (const Op& op : m.schedule.ops)
                if (!std::holds_alternative<Compute>(op.work) && !std::holds_alternative<Copy>(op.work))
                    expect_fits(m, op);
            const OpMatches matches(m.schedule);
            for (std::uint32_t match = 0; match < matches.size(); ++match)
                for (const OpId member : matches.members(match)) {
                    EXPECT_EQ(m.words_of(member), m.words_of(matches.members(match).front()));
                    EXPECT_EQ(m.of(member).type, m.of(matches.members(match).front()).type);
                    EXPECT_EQ(m.of(member).parts, m.of(matches.members(match).front()).parts);
                }
        }
}

TEST(CudaMessages, GradientsAreSummedInFp32AndTheirNormInDouble) {
    const Messages m(sharded(Style::kGpt2, 2, 2, 2, 2));
    std::map<Function, ElementType> types;
    for (const Op& op : m.schedule.ops)
        if (const auto* work = std::get_if<Collective>(&op.work))
            if (work->kind == CollectiveKind::kAllReduce || work->kind == CollectiveKind::kReduceScatter)
                types[op.tag.function] = m.of(op.id).type;
    EXPECT_EQ(types.at(Function::kGradients), ElementType::kFp32);
    EXPECT_EQ(types.at(Function::kReplicated), ElementType::kFp32);
    EXPECT_EQ(types.at(Function::kTiedTable), ElementType::kFp32);
    EXPECT_EQ(types.at(Function::kGradientNorm), ElementType::kFp64);
    EXPECT_EQ(types.at(Function::kMlp), ElementType::kBf16);
}

// With ZeRO 1 replicas share out gradients in fp32 and give each other weights in bf16.
TEST(CudaMessages, WeightsOfReplicasAreGatheredInBf16) {
    Scenario s = sharded(Style::kLlama, 2, 1, 1, 2);
    s.policy.zero = ZeroStage::kOptimizer;
    const Messages m(s);
    std::map<Function, ElementType> types;
    for (const Op& op : m.schedule.ops)
        if (std::holds_alternative<Collective>(op.work) && shares_out(op)) types[op.tag.function] = m.of(op.id).type;
    EXPECT_EQ(types, (std::map<Function, ElementType>{{Function::kGradients, ElementType::kFp32},
                                                      {Function::kAdamw, ElementType::kBf16}}));
}

TEST(CudaMessages, ShardsOfAVocabularyHaveAGroupOfTheirOwnForTheLoss) {
    const Schedule schedule = lowered_schedule(sharded(Style::kGpt2, 2, 2, 2, 2));
    const std::vector<Group> groups = transport_groups(schedule, 2, 2);
    ASSERT_EQ(groups.size(), schedule.groups.size() + 4);
    for (const Rank rank : all_ranks(schedule)) {
        const Group& group = groups[index(loss_group(schedule, 2, rank))];
        EXPECT_EQ(group.members.size(), 2U);
        EXPECT_EQ(std::count(group.members.begin(), group.members.end(), rank), 1);
    }
    EXPECT_EQ(transport_groups(schedule, 2, 1).size(), schedule.groups.size()) << "with Ulysses nothing is exchanged";
}

}  // namespace
}  // namespace sluice::cuda

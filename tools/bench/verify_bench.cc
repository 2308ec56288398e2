// Times verify() and place_memory() on a synthetic pipeline at layer granularity: 16 stages of 8 ranks, 2 layers a
// stage, 256 subsequences of decreasing length, K/V in one buffer per layer, offloads, prefetched reloads, collectives
// around every block. Prints sizes, seconds, and how far arenas are above the live peak.
//
//   verify_bench [SUBSEQUENCES] [ranks-differ]
//
// "ranks-differ" gives every rank weights of its own size, so that no packing can be shared among the ranks of a stage.
// Build it optimised: cmake --preset release && cmake --build --preset release --target verify_bench
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "base/format_units.h"
#include "schedule/place_memory.h"
#include "schedule/schedule.h"
#include "schedule/verify.h"

namespace sluice {
namespace {

constexpr std::uint32_t kStages = 16, kWidth = 8, kLayers = 2, kPrefetch = 3;
constexpr Bytes kHidden = 512_KiB;  // one activation of the longest subsequence on one rank

// Writes the program of one rank.
class RankProgram {
public:
    RankProgram(Schedule& schedule, Rank rank, std::uint32_t subsequences, Bytes extra)
        : schedule_(schedule),
          rank_(rank),
          stage_(static_cast<std::uint32_t>(index(rank)) / kWidth),
          count_(subsequences),
          extra_(extra),
          kept_(kLayers * count_),
          host_(kLayers * count_),
          reload_(kLayers * count_),
          offloaded_(kLayers * count_, kNoOp) {}

    void write() {
        weights_ = buffer(BufferKind::kWeights, 256_MiB + extra_, true);
        grads_ = buffer(BufferKind::kGrads, 256_MiB, true);
        for (std::uint32_t l = 0; l < kLayers; ++l) {
            kv_[l] = blocks(BufferKind::kKv, 1);
            dkv_[l] = blocks(BufferKind::kDkv, 2);
        }
        for (std::uint32_t i = 0; i < count_; ++i) forward(i);
        for (std::uint32_t i = count_; i-- > 0;) backward(i);
        op({LaneKind::kCompute, kNoRank}, Compute{{{Pointwise{PointwiseKind::kAdamw, 1_GiB}, 1}}},
           {read(grads_), write(weights_)}, {});
    }

private:
    // Later subsequences attend to more keys, so a balanced partition makes them shorter.
    Bytes unit(std::uint32_t i) const { return round_up(Bytes{kHidden.value * 300 / (300 + i)}, 512_B); }

    BufferId buffer(BufferKind kind, Bytes bytes, bool persistent = false, Space space = Space::kDevice) {
        const BufferId id = id_at<BufferId>(schedule_.buffers.size());
        schedule_.buffers.push_back({id, rank_, space, kind, persistent, bytes, {}, {}});
        return id;
    }
    BufferId blocks(BufferKind kind, std::int64_t factor) {
        std::vector<Bytes> sizes;
        Bytes sum{};
        for (std::uint32_t i = 0; i < count_; ++i) {
            sizes.push_back(unit(i) * factor);
            sum += sizes.back();
        }
        const BufferId id = buffer(kind, sum);
        schedule_.buffers[index(id)].blocks = std::move(sizes);
        return id;
    }

    static Access read(BufferId b, std::uint32_t last = 0) { return {b, 0, last, AccessMode::kRead}; }
    static Access write(BufferId b) { return {b, 0, 0, AccessMode::kWrite}; }

    OpId op(Lane lane, Work work, std::vector<Access> accesses, std::vector<OpId> after) {
        const OpId id = id_at<OpId>(schedule_.ops.size());
        std::erase(after, kNoOp);
        std::ranges::sort(after);
        schedule_.ops.push_back({id, rank_, lane, std::move(work), std::move(after), std::move(accesses), {}});
        return id;
    }
    OpId compute(std::vector<Access> accesses, std::vector<OpId> after) {
        return last_ = op({LaneKind::kCompute, kNoRank}, Compute{{{Gemm{1024, 4096, 4096}, 1}}}, std::move(accesses),
                          std::move(after));
    }
    // Gathers `from` into a new buffer, or scatters it.
    BufferId collective(CollectiveKind kind, BufferId from, Bytes bytes) {
        const BufferId to = buffer(BufferKind::kComm, bytes);
        gathered_ = op({LaneKind::kCollective, kNoRank}, Collective{kind, id_at<GroupId>(stage_), bytes, 1, 0},
                       {read(from), write(to)}, {last_, arrived_});
        return to;
    }
    Rank neighbour(int step) const {
        return id_at<Rank>(index(rank_) + static_cast<std::size_t>(step * static_cast<int>(kWidth)));
    }

    BufferId receive(int step, Bytes bytes) {
        const BufferId input = buffer(BufferKind::kComm, bytes);
        arrived_ = kNoOp;
        if (step < 0 ? stage_ > 0 : stage_ + 1 < kStages)
            arrived_ = op({LaneKind::kReceive, neighbour(step)}, Receive{bytes}, {write(input)}, {});
        else
            compute({write(input)}, {});
        return input;
    }
    void send(int step, BufferId from, Bytes bytes) {
        if (step < 0 ? stage_ > 0 : stage_ + 1 < kStages)
            op({LaneKind::kSend, neighbour(step)}, Send{bytes}, {read(from)}, {last_});
    }

    void forward(std::uint32_t i) {
        const Bytes bytes = unit(i);
        BufferId hidden = receive(-1, bytes);
        for (std::uint32_t l = 0; l < kLayers; ++l) hidden = forward_layer(i, l, hidden, bytes);
        send(+1, hidden, bytes);
    }

    BufferId forward_layer(std::uint32_t i, std::uint32_t l, BufferId input, Bytes bytes) {
        const std::uint32_t u = i * kLayers + l;
        const BufferId gathered = collective(CollectiveKind::kAllGather, input, bytes * kWidth);
        const BufferId attended = buffer(BufferKind::kActivation, bytes * 2);
        const BufferId staged = buffer(BufferKind::kStaging, bytes * 6);
        kept_[u] = buffer(BufferKind::kActivation, bytes * 2);
        compute({read(gathered),
                 {kv_[l], i, i, AccessMode::kWrite},
                 read(kv_[l], i),
                 read(weights_),
                 write(attended),
                 write(staged),
                 write(kept_[u])},
                {gathered_, previous_out_});
        const BufferId scattered = collective(CollectiveKind::kReduceScatter, attended, bytes * 2);
        const BufferId output = buffer(BufferKind::kActivation, bytes);
        const OpId produced = last_;
        compute({read(scattered), read(weights_), write(output)}, {gathered_});
        host_[u] = buffer(BufferKind::kStaging, bytes * 6, false, Space::kHost);
        offloaded_[u] = op({LaneKind::kCopyOut, kNoRank}, Copy{bytes * 6}, {read(staged), write(host_[u])}, {produced});
        return output;
    }

    void reload(std::uint32_t i) {
        for (std::uint32_t l = kLayers; l-- > 0;) {
            const std::uint32_t u = i * kLayers + l;
            reload_[u] = buffer(BufferKind::kStaging, unit(i) * 6);
            offloaded_[u] = op({LaneKind::kCopyIn, kNoRank}, Copy{unit(i) * 6}, {read(host_[u]), write(reload_[u])},
                               {offloaded_[u]});
        }
    }

    void backward(std::uint32_t i) {
        if (i + 1 == count_)
            for (std::uint32_t ahead = 0; ahead < kPrefetch && ahead <= i; ++ahead) reload(i - ahead);
        const Bytes bytes = unit(i);
        BufferId gradient = receive(+1, bytes);
        for (std::uint32_t l = kLayers; l-- > 0;) gradient = backward_layer(i, l, gradient, bytes);
        send(-1, gradient, bytes);
        if (i >= kPrefetch) reload(i - kPrefetch);
    }

    BufferId backward_layer(std::uint32_t i, std::uint32_t l, BufferId gradient, Bytes bytes) {
        const std::uint32_t u = i * kLayers + l;
        const AccessMode mode = i + 1 == count_ ? AccessMode::kWrite : AccessMode::kAccumulate;
        const BufferId gathered = collective(CollectiveKind::kAllGather, gradient, bytes * kWidth);
        const BufferId partial = buffer(BufferKind::kActivation, bytes * 2);
        compute({read(gathered), read(reload_[u]), read(weights_), write(partial)}, {gathered_, offloaded_[u]});
        const BufferId middle = collective(CollectiveKind::kReduceScatter, partial, bytes * 2);
        const BufferId work = buffer(BufferKind::kWorkspace, bytes * 4);
        compute({read(middle),
                 read(kept_[u]),
                 read(reload_[u]),
                 read(kv_[l], i),
                 {dkv_[l], 0, i, mode},
                 write(work),
                 read(weights_)},
                {gathered_});
        const BufferId output = collective(CollectiveKind::kReduceScatter, work, bytes);
        compute({read(reload_[u]), read(output), {grads_, 0, 0, AccessMode::kAccumulate}}, {gathered_});
        return output;
    }

    Schedule& schedule_;
    Rank rank_;
    std::uint32_t stage_, count_;
    Bytes extra_;
    std::vector<BufferId> kept_, host_, reload_;  // by subsequence and layer
    std::vector<OpId> offloaded_;                 // its copy out, then its copy in
    BufferId weights_{}, grads_{}, kv_[kLayers]{}, dkv_[kLayers]{};
    OpId last_ = kNoOp, gathered_ = kNoOp, arrived_ = kNoOp, previous_out_ = kNoOp;
};

Schedule pipeline(std::uint32_t subsequences, bool ranks_differ) {
    Schedule schedule;
    schedule.hosts.assign(kStages, {4096_GiB});
    for (std::uint32_t r = 0; r < kStages * kWidth; ++r) schedule.ranks.push_back({id_at<HostId>(r / kWidth), 80_GiB});
    for (std::uint32_t s = 0; s < kStages; ++s) {
        schedule.groups.push_back({id_at<GroupId>(s), {}});
        for (std::uint32_t w = 0; w < kWidth; ++w)
            schedule.groups.back().members.push_back(id_at<Rank>(s * kWidth + w));
    }
    for (std::uint32_t r = 0; r < kStages * kWidth; ++r)
        RankProgram(schedule, id_at<Rank>(r), subsequences, ranks_differ ? 512_B * r : 0_B).write();
    return schedule;
}

// Processor time: the machine may be busy with something else.
double seconds_since(std::clock_t start) { return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; }

void time_verify(const Schedule& schedule, std::string_view what) {
    const auto start = std::clock();
    const Diagnostics found = verify(schedule);
    fmt::print("verify {}: {:.2f} s of CPU time, {} problems\n", what, seconds_since(start), found.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 5); ++i)
        fmt::print("  {}: {}\n", found[i].rule, found[i].message);
}

void print_arenas(const std::vector<ArenaUse>& uses, std::string_view what) {
    double worst = 0;
    for (const ArenaUse& use : uses)
        if (use.live.bytes > 0_B) worst = std::max(worst, use.arena / use.live.bytes);
    fmt::print("{} arena of rank 0: {} ({} live), worst arena / live of a rank: {:.4f}\n", what, format(uses[0].arena),
               format(uses[0].live.bytes), worst);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
    using namespace sluice;
    const auto subsequences = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 256);
    Schedule schedule = pipeline(subsequences, argc > 2);
    std::size_t accesses = 0;
    for (const Op& op : schedule.ops) accesses += op.accesses.size();
    fmt::print("{} ops, {} accesses, {} buffers, {} ranks\n", schedule.ops.size(), accesses, schedule.buffers.size(),
               schedule.ranks.size());
    time_verify(schedule, "before placement");
    const auto start = std::clock();
    const Placement placement = place_memory(schedule);
    fmt::print("place_memory: {:.2f} s of CPU time\n", seconds_since(start));
    print_arenas(placement.device, "device");
    print_arenas(placement.host, "host");
    time_verify(schedule, "after placement");
}

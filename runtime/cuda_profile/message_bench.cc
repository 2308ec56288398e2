#include "runtime/cuda_profile/message_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "runtime/profile/measurement.h"

namespace sluice::cuda {
namespace {

constexpr std::size_t kSamples = 5, kFewest = 2, kMost = 200;
constexpr GroupId kAll{0};
constexpr MessageKind kKinds[] = {MessageKind::kAllGather, MessageKind::kReduceScatter, MessageKind::kAllReduce,
                                  MessageKind::kAllToAll, MessageKind::kSendReceive};

// One message of a size, on one rank.
class Message {
public:
    Message(const MessageRank& rank, std::size_t number, std::size_t ranks, MessageKind kind, Bytes size)
        : rank_(rank), number_(number), ranks_(ranks), kind_(kind) {
        const auto bytes = static_cast<std::size_t>(size.value), part = bytes / ranks;
        out_ = rank.out.first(bytes), in_ = rank.in.first(bytes);
        for (std::size_t k = 0; k < ranks; ++k) {
            to_each_.push_back(out_.subspan(k * part, part));
            from_each_.push_back(in_.subspan(k * part, part));
        }
    }

    void call() const {
        const TransportCall on{OpId{}, nccl_test_name(kind_), rank_.stream};
        const std::span<std::byte> mine = from_each_[number_];
        switch (kind_) {
            case MessageKind::kAllGather:
                return rank_.transport->all_gather(on, kAll, to_each_[0], in_);
            case MessageKind::kReduceScatter:
                return rank_.transport->reduce_scatter(on, kAll, ElementType::kBf16, out_, mine);
            case MessageKind::kAllReduce:
                return rank_.transport->all_reduce(on, kAll, ElementType::kBf16, std::span(&in_, 1));
            case MessageKind::kAllToAll:
                return rank_.transport->all_to_all(on, kAll, to_each_, from_each_);
            case MessageKind::kSendReceive:
                return transfer(on);
        }
    }

private:
    // A call may wait for its partner's: so every other rank sends first.
    void transfer(const TransportCall& sending) const {
        TransportCall receiving = sending;
        receiving.stream = rank_.receiving;
        const auto send = [&] { rank_.transport->send(sending, id_at<Rank>((number_ + 1) % ranks_), out_); };
        const auto receive = [&] {
            rank_.transport->receive(receiving, id_at<Rank>((number_ + ranks_ - 1) % ranks_), in_);
        };
        number_ % 2 == 0 ? (send(), receive()) : (receive(), send());
    }

    const MessageRank& rank_;
    const std::size_t number_, ranks_;
    const MessageKind kind_;
    std::span<const std::byte> out_;
    std::span<std::byte> in_;
    std::vector<std::span<const std::byte>> to_each_;
    std::vector<std::span<std::byte>> from_each_;
};

struct Timing {
    std::size_t samples = 1, calls = 1;
    Seconds load{};  // other work beside it, for so long; 0: none
};

// The mean over ranks of what a call took, by sample.
std::vector<Seconds> time_calls(std::span<const MessageRank> ranks, MessageKind kind, Bytes size, const Timing& timing,
                                RunMonitor& monitor) {
    std::vector<std::vector<Seconds>> of_rank(ranks.size());
    on_all_ranks(ranks.size(), monitor, [&](std::size_t k) {
        const MessageRank& rank = ranks[k];
        rank.enter();
        const Message message(rank, k, ranks.size(), kind, size);
        const bool loaded = timing.load.value > 0 && rank.load;
        if (loaded) rank.load(timing.load);
        for (std::size_t s = 0; s < timing.samples; ++s) {
            rank.start();
            for (std::size_t i = 0; i < timing.calls; ++i) message.call();
            of_rank[k].push_back(rank.stop() / static_cast<double>(timing.calls));
        }
        if (loaded) rank.unload();
    });
    std::vector<Seconds> means(timing.samples);
    for (std::size_t s = 0; s < timing.samples; ++s)
        for (const std::vector<Seconds>& times : of_rank) means[s] += times[s] / static_cast<double>(ranks.size());
    return means;
}

MessageFigure time_message(std::span<const MessageRank> ranks, MessageKind kind, Bytes size, Seconds for_each,
                           bool loaded, RunMonitor& monitor) {
    time_calls(ranks, kind, size, {1, kFewest, {}}, monitor);  // connects, warms up
    const Seconds one = std::max(time_calls(ranks, kind, size, {1, kFewest, {}}, monitor)[0], Seconds{1e-7});
    Timing timing;
    timing.samples = kSamples;
    const double wanted = std::ceil(for_each / (one * static_cast<double>(kSamples)));
    timing.calls = static_cast<std::size_t>(std::clamp(wanted, double{kFewest}, double{kMost}));
    // beside other work a message may take longer, which then must not end before it
    if (loaded) timing.load = one * (2.0 * static_cast<double>(timing.samples * timing.calls));
    const Seconds time = measurement_of(time_calls(ranks, kind, size, timing, monitor)).median;
    return {kind, ranks.size(), 0, size, std::max(time, Seconds{1e-9})};
}

}  // namespace

void on_all_ranks(std::size_t ranks, RunMonitor& monitor, const std::function<void(std::size_t)>& work) {
    std::vector<std::jthread> threads;
    for (std::size_t k = 0; k < ranks; ++k)
        threads.emplace_back([&, k] {
            try {
                work(k);
            } catch (...) {
                monitor.fail(std::current_exception(), fmt::format("rank {}", k));
            }
        });
    threads.clear();  // joins
    monitor.throw_failure();
}

Bytes message_bytes(Bytes size, std::size_t ranks) { return round_up(size, 256_B * static_cast<std::int64_t>(ranks)); }

Schedule message_schedule(std::size_t ranks) {
    Schedule schedule;
    schedule.hosts.push_back({1_GiB});
    schedule.groups.push_back({kAll, {}});
    const auto add = [&](std::size_t rank, Lane lane, Work work) {
        schedule.ops.push_back(
            {id_at<OpId>(schedule.ops.size()), id_at<Rank>(rank), lane, std::move(work), {}, {}, {}});
    };
    for (std::size_t r = 0; r < ranks; ++r) {
        schedule.ranks.push_back({HostId{0}, 1_GiB});
        schedule.groups[0].members.push_back(id_at<Rank>(r));
        const Rank next = id_at<Rank>((r + 1) % ranks), before = id_at<Rank>((r + ranks - 1) % ranks);
        add(r, {LaneKind::kCollective, kNoRank}, Collective{CollectiveKind::kAllGather, kAll, 1_KiB});
        add(r, {LaneKind::kSend, next}, Send{1_KiB});
        add(r, {LaneKind::kReceive, before}, Receive{1_KiB});
    }
    return schedule;
}

std::vector<MessageFigure> time_messages(std::span<const MessageRank> ranks, std::span<const Bytes> sizes,
                                         Seconds for_each, bool loaded, RunMonitor& monitor) {
    SLUICE_CHECK(ranks.size() >= 2, "messages are between ranks");
    std::vector<MessageFigure> figures;
    for (const MessageKind kind : kKinds)
        for (const Bytes size : sizes)
            figures.push_back(time_message(ranks, kind, message_bytes(size, ranks.size()), for_each, loaded, monitor));
    return figures;
}

}  // namespace sluice::cuda

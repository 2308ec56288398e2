// The measuring of messages, without a GPU: over the fake library, on host memory, by clocks made up here.
#include "runtime/cuda_profile/message_bench.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>

#include "base/error.h"
#include "runtime/nccl/nccl_transport.h"
#include "tests/runtime/nccl/fake_nccl.h"

namespace sluice::cuda {
namespace {

// Ranks of one process, every one with buffers of `bytes`. The clock of rank k says k + 1 ms, whatever runs.
struct FakeGpus {
    FakeGpus(std::size_t ranks, Bytes bytes) : schedule(message_schedule(ranks)), counts(ranks) {
        reset_fake_nccl();
        for (std::size_t r = 0; r < ranks; ++r) {
            local.push_back(id_at<Rank>(r));
            owned.push_back(std::make_unique<FakeDevice>(static_cast<int>(r)));
            devices.push_back(owned.back().get());
            memory.emplace_back(static_cast<std::size_t>(2 * bytes.value));
        }
        transports = nccl_transport(job, fake_nccl(), nullptr)({schedule, schedule.groups, local, devices, monitor});
        for (std::size_t r = 0; r < ranks; ++r) {
            const std::span<std::byte> all(memory[r]);
            MessageRank rank{transports[r].get(),
                             nullptr,
                             nullptr,
                             all.first(all.size() / 2),
                             all.subspan(all.size() / 2),
                             {},
                             {},
                             {},
                             {},
                             {}};
            rank.enter = [this, r] { ++counts[r].entered; };
            rank.start = [this, r] { ++counts[r].started; };
            rank.stop = [this, r] { return ++counts[r].stopped, Seconds{1e-3 * static_cast<double>(r + 1)}; };
            rank.load = [this, r](Seconds time) { counts[r].loaded += time; };
            rank.unload = [this, r] { ++counts[r].unloaded; };
            benches.push_back(rank);
        }
    }

    struct Counts {
        int entered = 0, started = 0, stopped = 0, unloaded = 0;
        Seconds loaded{};
    };
    const Schedule schedule;
    Rendezvous job{{}, {"profile", 1}};
    RunMonitor monitor;
    std::vector<Rank> local;
    std::vector<std::unique_ptr<FakeDevice>> owned;
    std::vector<const DevicePart*> devices;
    std::vector<std::vector<std::byte>> memory;
    std::vector<Counts> counts;
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<MessageRank> benches;
};

constexpr std::array kSizes = {1_KiB, 5000_B};

TEST(MessageBench, EveryKindAtEverySize) {
    for (const std::size_t ranks : {2, 3, 4}) {  // an odd number, too: transfers go round
        FakeGpus gpus(ranks, 16_KiB);
        const auto figures = time_messages(gpus.benches, kSizes, Seconds{1e-3}, false, gpus.monitor);
        ASSERT_EQ(figures.size(), 10U);
        for (std::size_t i = 0; i < figures.size(); ++i) {
            EXPECT_EQ(figures[i].kind, static_cast<MessageKind>(i / 2));
            EXPECT_EQ(figures[i].members, ranks);
            EXPECT_EQ(figures[i].size, message_bytes(kSizes[i % 2], ranks));
            EXPECT_EQ(figures[i].size.value % static_cast<std::int64_t>(256 * ranks), 0);
            // two calls of a sample, the mean over ranks
            EXPECT_NEAR(figures[i].time.value, 1e-3 * static_cast<double>(ranks + 1) / 2 / 2, 1e-12);
        }
        for (const FakeGpus::Counts& counts : gpus.counts) {
            EXPECT_EQ(counts.started, 10 * (1 + 1 + 5));
            EXPECT_EQ(counts.stopped, counts.started);
            EXPECT_EQ(counts.unloaded, 0);
        }
    }
}

TEST(MessageBench, OtherWorkOutlastsTheMessages) {
    FakeGpus gpus(2, 16_KiB);
    time_messages(gpus.benches, std::array{1_KiB}, Seconds{1e-3}, true, gpus.monitor);
    for (const FakeGpus::Counts& counts : gpus.counts) {
        EXPECT_EQ(counts.unloaded, 5);
        // five kinds, five samples of two calls of 0.75 ms, twice as long
        EXPECT_NEAR(counts.loaded.value, 5 * 5 * 2 * 0.75e-3 * 2, 1e-9);
    }
}

// The others wait for it in the library, and are called back.
TEST(MessageBench, AFailureOfOneRankEndsAll) {
    FakeGpus gpus(3, 16_KiB);
    gpus.benches[1].start = [] { throw EnvironmentError("the clock stands still"); };
    try {
        time_messages(gpus.benches, kSizes, Seconds{1e-3}, false, gpus.monitor);
        ADD_FAILURE() << "it went on";
    } catch (const EnvironmentError& error) {
        EXPECT_STREQ(error.what(), "rank 1: the clock stands still");
    }
}

}  // namespace
}  // namespace sluice::cuda

// The real library, where there is a GPU: one member alone, and two GPUs if there are two.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/stream_events.h"
#include "runtime/nccl/local_communicators.h"
#include "runtime/nccl/nccl_functions.h"

namespace sluice::cuda {
namespace {

int gpus() {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// A member with 1024 floats of its own.
struct Member {
    Member(int device, LocalCommunicators& all, RunMonitor& monitor)
        : gpu(device), comm(all.add(nccl_library(), "a group", static_cast<std::uint32_t>(device), monitor)) {
        cudaSetDevice(gpu);
        stream = std::make_unique<OwnedStream>();
        memory = std::make_unique<DeviceMemory>(Bytes{4096}, "a member's values");
    }
    void fill(float value) const {
        const std::vector<float> values(1024, value);
        upload(std::as_bytes(std::span(values)), memory->bytes().data());
    }
    std::vector<float> values() const {
        std::vector<float> all(1024);
        download(memory->bytes().data(), std::as_writable_bytes(std::span(all)));
        return all;
    }
    void all_reduce() {
        cudaSetDevice(gpu);
        comm.call("all_reduce", [&](ncclComm* c) {
            return nccl_library().all_reduce(memory->bytes().data(), 1024, ElementType::kFp32, c, stream->get());
        });
    }

    int gpu;  // and member
    NcclCommunicator& comm;
    std::unique_ptr<OwnedStream> stream;
    std::unique_ptr<DeviceMemory> memory;
};

void begin(const std::vector<Member*>& members) {
    const NcclFunctions& nccl = nccl_library();
    NcclId id{};
    ASSERT_EQ(nccl.make_id(&id), kNcclSuccess);
    nccl.group_start();
    for (Member* const member : members) {
        cudaSetDevice(member->gpu);
        member->comm.begin(id, static_cast<std::uint32_t>(members.size()));
    }
    nccl.group_end();
    for (Member* const member : members) member->comm.finish({});
}

TEST(NcclLibrary, is_loaded_and_works_for_one_member) {
    if (gpus() < 1) GTEST_SKIP() << "no GPU";
    RunMonitor monitor;
    LocalCommunicators all;
    Member alone(0, all, monitor);
    begin({&alone});
    alone.fill(3);
    for (int i = 0; i < 10; ++i) alone.all_reduce();
    alone.stream->wait();
    EXPECT_EQ(alone.values(), std::vector<float>(1024, 3));
    alone.comm.check();
    EXPECT_FALSE(monitor.stopped());
}

TEST(NcclLibrary, sums_over_two_gpus) {
    if (gpus() < 2) GTEST_SKIP() << "needs two GPUs";
    RunMonitor monitor;
    LocalCommunicators all;
    Member first(0, all, monitor), second(1, all, monitor);
    begin({&first, &second});
    first.fill(1), second.fill(2);
    std::jthread other([&] { second.all_reduce(); });
    first.all_reduce();
    other.join();
    first.stream->wait(), second.stream->wait();
    EXPECT_EQ(first.values(), std::vector<float>(1024, 3));
    EXPECT_EQ(second.values(), std::vector<float>(1024, 3));
}

// The partner never calls: its kernel waits on the GPU, until it is aborted.
TEST(NcclLibrary, who_waits_for_a_lost_partner_is_called_back) {
    if (gpus() < 2) GTEST_SKIP() << "needs two GPUs";
    RunMonitor monitor;
    LocalCommunicators all;
    Member first(0, all, monitor), second(1, all, monitor);
    begin({&first, &second});
    std::jthread both([&] { second.all_reduce(); });
    first.all_reduce();  // connects
    both.join();
    first.stream->wait(), second.stream->wait();
    first.all_reduce();
    std::jthread watch([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        monitor.fail(FailureKind::kEnvironment, "the partner is lost");
        first.comm.abort();
    });
    const auto begun = std::chrono::steady_clock::now();
    first.stream->wait();
    watch.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
    EXPECT_THROW(first.all_reduce(), RunStopped);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// Kernels of two communicators wait on one GPU. One after another their aborts would not end: the first waits for both.
TEST(NcclLibrary, two_that_wait_for_a_lost_partner_are_called_back) {
    if (gpus() < 2) GTEST_SKIP() << "needs two GPUs";
    RunMonitor monitor;
    LocalCommunicators all;
    Member first(0, all, monitor), second(1, all, monitor), third(0, all, monitor), fourth(1, all, monitor);
    begin({&first, &second}), begin({&third, &fourth});
    std::jthread partners([&] { second.all_reduce(), fourth.all_reduce(); });
    first.all_reduce(), third.all_reduce();  // connect
    partners.join();
    for (const Member* const member : {&first, &second, &third, &fourth}) member->stream->wait();
    all.watch(monitor);
    first.all_reduce(), third.all_reduce();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto begun = std::chrono::steady_clock::now();
    monitor.fail(FailureKind::kEnvironment, "the partner is lost");
    first.stream->wait(), third.stream->wait();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace sluice::cuda

// Whole models on two GPUs that talk through NCCL, ranks as threads of this process: against the CPU's one rank, and
// against themselves. Each GPU is a rank's alone.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "runtime/cuda/gpu_parts.h"
#include "runtime/cuda/local_gpus.h"
#include "runtime/nccl/nccl_functions.h"
#include "runtime/nccl/nccl_transport.h"
#include "runtime/rendezvous/rendezvous.h"
#include "tests/runtime/cuda/degrees_case.h"

namespace sluice::cuda {
namespace {

constexpr Degrees kAll[] = {
    {1, 2, 1}, {2, 1, 1}, {2, 1, 1, SequenceParallelKind::kUlysses}, {1, 1, 2}, sharing({1, 1, 2})};

class TwoGpus : public testing::Test {
protected:
    static void SetUpTestSuite() { raise_stream_connections(); }  // before anything is asked of CUDA
    void SetUp() override {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) GTEST_SKIP() << "needs two GPUs";
    }
    void TearDown() override {
        if (IsSkipped()) return;
        for (const int gpu : {0, 1}) {
            must(cudaSetDevice(gpu), "cudaSetDevice");
            EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << cudaGetErrorString(cudaGetLastError());
        }
    }

    CudaOptions on_gpus() {
        CudaOptions options;
        options.deterministic = true;
        options.device_of_rank = local_gpus(0, {Rank{0}, Rank{1}});
        options.transport = nccl_transport(job_, nccl_library(), stream_flags());
        return options;
    }

private:
    Rendezvous job_{LaunchPlace{}, JobMember{"ranks 0 to 1", 1}};  // of this process alone
};

TEST_F(TwoGpus, GradientsAreTheCpusOneRanks) {
    expect_gradients_of_one_rank(kAll, [this](const Degrees&) { return on_gpus(); });
}

TEST_F(TwoGpus, SharedStatesChangeNoBit) { expect_shared_states_change_no_bit({1, 1, 2}, on_gpus()); }

TEST_F(TwoGpus, PoisonAndDelayedCopiesChangeNoBit) { expect_disturbances_change_no_bit({1, 2, 1}, on_gpus()); }

}  // namespace
}  // namespace sluice::cuda

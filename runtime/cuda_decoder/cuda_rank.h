// What the ops of a rank on a GPU need beyond their operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/device_views.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/stream_clock.h"
#include "runtime/cuda/token_embedding.h"
#include "runtime/cuda/transport.h"
#include "runtime/decoder/rank_context.h"
#include "runtime/decoder/step_inputs.h"

namespace sluice::cuda {

// On the device, filled between steps and never moved.
struct DeviceTokens {
    const TokenId *inputs = nullptr, *targets = nullptr;  // [sequence of the batch][token]
    // Of the embedding's backward, by sequence, then subsequence. Written between steps, so ops refer to them.
    std::vector<std::vector<DeviceSortedTokens>> sorted;
};

struct CudaRank : RankSizes {
    Gemms& gemms;
    AttentionPlans& attention;
    Scratch scratch;                  // of the compute stream
    std::span<std::byte> loss_space;  // partial results per token of a chunk of the loss
    const DeviceTokens& tokens_of_step;
    double* loss_sums = nullptr;  // on the device, by sequence of the batch
    const StepInputs& inputs;
    Transport* transport = nullptr;  // nothing in a run of one rank
    // While ops are bound, before the first step: where algorithms are tried out, and on what memory; empty: they are
    // not tried out.
    Stream binding_stream = nullptr;
    std::span<std::byte> binding_scratch;
};

// An op ready to be put on its stream, over and over. Allocates nothing.
using BoundCudaOp = std::function<void(StreamClock&)>;

// A product whose algorithm is chosen: prepared where it is bound.
template <class Out>
class Product {
public:
    Product(const CudaRank& rank, Transpose a_as, ConstBf16Matrix a, Transpose b_as, ConstBf16Matrix b,
            BasicMatrixView<Out> c, Store store = Store::kOverwrite)
        : gemms_(&rank.gemms), a_as_(a_as), b_as_(b_as), a_(a), b_(b), c_(c), store_(store) {
        rank.gemms.prepare(gemm_shape(a_as, a, b_as, b, c, store), rank.binding_stream, rank.binding_scratch);
    }
    void operator()(Stream stream) const { gemms_->run(stream, a_as_, a_, b_as_, b_, c_, store_); }

private:
    Gemms* gemms_;
    Transpose a_as_, b_as_;
    ConstBf16Matrix a_, b_;
    BasicMatrixView<Out> c_;
    Store store_;
};

}  // namespace sluice::cuda

#include <cuda_runtime_api.h>

#include <vector>

#include "runtime/cuda/check.h"
#include "runtime/cuda/optimizer.h"
#include "runtime/cuda_decoder/bind_op.h"

namespace sluice::cuda {
namespace {

// Neighbouring parameters of one kind and part that the rank steps, as one range.
struct Range {
    const ParameterSlice* first = nullptr;
    std::int64_t offset = 0, count = 0;  // into the rank's weights
    bool counts = false;                 // in the model's norm: on one rank of those that hold it
    bool decays = false;
};

std::vector<Range> ranges(const CudaRank& c) {
    std::vector<Range> all;
    const std::int64_t head = c.layout.head_part ? c.layout.head_part->offset : c.layout.elements;
    for (const ParameterSlice& slice : c.layout.slices) {
        if (slice.stepped == 0) continue;
        const std::int64_t offset = slice.offset + slice.first_stepped;
        const bool tied_copy = c.layout.copies_tied_table && slice.offset == head;
        const bool counts = !tied_copy && (!slice.replicated || c.role().shard == 0);
        const bool goes_on = !all.empty() && all.back().first->part == slice.part && all.back().counts == counts &&
                             all.back().decays == slice.decays && all.back().offset + all.back().count == offset &&
                             all.back().first->state + all.back().count == slice.state;
        if (goes_on)
            all.back().count += slice.stepped;
        else
            all.push_back({&slice, offset, slice.stepped, counts, slice.decays});
    }
    return all;
}

double* norm_at(const OperandsOf<float>& o) {
    const std::span<float> floats = o.of_kind(BufferKind::kComm);
    if (floats.size_bytes() != sizeof(double)) o.refuse("the norm is one double");
    return reinterpret_cast<double*>(floats.data());
}

}  // namespace

BoundCudaOp bind_gradient_norm(const CudaRank& c, const Op& op) {
    const OperandsOf<float> o(c.schedule, c.arenas, op);
    struct Part {
        const float* values;
        std::int64_t count;
    };
    std::vector<Part> parts;
    for (const Range& range : ranges(c))
        if (range.counts) parts.push_back({stepped_gradients_of(c.layout, o, *range.first).data(), range.count});
    double* const norm = norm_at(o);
    const Scratch scratch = c.scratch;
    return [=](StreamClock& clock) {
        check(cudaMemsetAsync(norm, 0, sizeof(double), clock.stream()), "clear the norm");
        for (const Part& part : parts) sum_of_squares(clock.stream(), part.values, part.count, norm, scratch);
        clock.lap();
    };
}

// The optimizer's state: master weights, then the first moments, then the second.
BoundCudaOp bind_adamw(const CudaRank& c, const Op& op) {
    const OperandsOf<float> o(c.schedule, c.arenas, op);
    const OperandsOf<Bf16> halves(c.schedule, c.arenas, op);
    const std::span<float> state = o.of_kind(BufferKind::kOptimizer);
    const std::int64_t elements = c.layout.state_elements;
    if (static_cast<std::int64_t>(state.size()) != 3 * elements)
        o.refuse("the optimizer's state is not a master weight and two moments per parameter");
    Bf16* const weights = halves.of_kind(BufferKind::kWeights).data();
    struct Part {
        AdamwParameters parameters;
        bool decays;
    };
    std::vector<Part> parts;
    for (const Range& r : ranges(c)) {
        float* const master = state.data() + r.first->state;
        parts.push_back({{stepped_gradients_of(c.layout, o, *r.first).data(), master, master + elements,
                          master + 2 * elements, weights + r.offset, r.count},
                         r.decays});
    }
    const double* const squares = norm_at(o);
    const StepInputs& inputs = c.inputs;
    return [=, &inputs](StreamClock& clock) {
        AdamwStep step = inputs.optimizer;
        const float decay = step.weight_decay;
        for (const Part& part : parts) {
            step.weight_decay = part.decays ? decay : 0;
            adamw(clock.stream(), step, inputs.clip, squares, part.parameters);
        }
        clock.lap();
    };
}

}  // namespace sluice::cuda

#include <cmath>
#include <vector>

#include "runtime/cpu/gradient_norm.h"
#include "runtime/decoder/bind_op.h"

namespace sluice {
namespace {

// What the rank steps of a parameter, in its buffers.
struct Place {
    std::span<float> weights, gradients, first_moment, second_moment;
    bool counts = false;  // in the model's norm: on one rank of those that hold it
    bool decays = false;
};

std::vector<Place> places(const RankContext& c, const Operands& o, bool with_states) {
    std::vector<Place> all;
    for (const ParameterSlice& slice : c.layout.slices) {
        Place p;
        const auto first = static_cast<std::size_t>(slice.first_stepped);
        const auto count = static_cast<std::size_t>(slice.stepped), at = static_cast<std::size_t>(slice.state);
        p.gradients = stepped_gradients_of(c.layout, o, slice);
        if (with_states) {
            const std::span<float> moments = o.of_kind(BufferKind::kOptimizer);
            const auto elements = static_cast<std::size_t>(c.layout.state_elements);
            if (moments.size() != 2 * elements) o.refuse("the optimizer's state is not two moments per parameter");
            p.weights = o.of_kind(BufferKind::kWeights).subspan(static_cast<std::size_t>(slice.offset) + first, count);
            p.first_moment = moments.subspan(at, count), p.second_moment = moments.subspan(elements + at, count);
        }
        const bool tied_copy = c.layout.copies_tied_table && slice.offset == c.layout.head_part->offset;
        p.counts = !tied_copy && (!slice.replicated || c.role().shard == 0);
        p.decays = slice.decays;
        all.push_back(p);
    }
    return all;
}

double& norm_at(const Operands& o) {
    const std::span<float> floats = o.of_kind(BufferKind::kComm);
    if (floats.size() * sizeof(float) != sizeof(double)) o.refuse("the norm is one double");
    return *reinterpret_cast<double*>(floats.data());
}

}  // namespace

// Sum of squares of what this rank counts; the all-reduce that follows makes it the model's.
BoundOp bind_gradient_norm(const RankContext& c, const Op& op) {
    const Operands o(c.schedule, c.arenas, op);
    const std::vector<Place> all = places(c, o, false);
    double& norm = norm_at(o);
    return [all, &norm](KernelClock& clock) {
        norm = 0;
        for (const Place& p : all)
            if (p.counts) norm += sum_of_squares(p.gradients);
        clock.lap();
    };
}

BoundOp bind_adamw(const RankContext& c, const Op& op) {
    const Operands o(c.schedule, c.arenas, op);
    const std::vector<Place> all = places(c, o, true);
    const double& squares = norm_at(o);
    const StepInputs& inputs = c.inputs;
    StepFindings& findings = c.findings;
    return [all, &squares, &inputs, &findings](KernelClock& clock) {
        findings.gradient_norm = std::sqrt(squares);
        findings.stepped = std::isfinite(findings.gradient_norm);
        AdamwStep step = inputs.optimizer;
        const float decay = step.weight_decay;
        step.gradient_scale = inputs.clip > 0 ? clipping_scale(findings.gradient_norm, inputs.clip) : 1;
        if (findings.stepped)
            for (const Place& p : all) {
                step.weight_decay = p.decays ? decay : 0;
                adamw(step, p.gradients, {p.weights, p.first_moment, p.second_moment});
            }
        clock.lap();
    };
}

}  // namespace sluice

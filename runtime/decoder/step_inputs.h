// What a step is given, and what a rank finds out in it.
#pragma once

#include <vector>

#include "runtime/cpu/adamw.h"
#include "runtime/vocabulary_shard.h"

namespace sluice {

// Of one step, the same for all ranks; written between steps.
struct StepInputs {
    std::vector<std::vector<TokenId>> inputs, targets;  // by sequence of the batch, each of the sequence's length
    AdamwStep optimizer;                                // but for gradient_scale
    double clip = 0;                                    // limit of the gradients' norm; 0: not clipped
    bool check_finite = false;                          // every op looks through what it wrote
};

// What a rank found out in a step.
struct StepFindings {
    std::vector<double> loss_sum;  // by sequence: over its tokens; of a rank of the last stage
    double gradient_norm = 0;      // of the whole model, before clipping
    bool stepped = false;          // false: the norm is not finite, and weights and moments are as they were
};

}  // namespace sluice

// What a PyTorch decoder with Megatron's tensor parallelism keeps of a block for backward, as far as sequence
// parallelism changes it: a second inventory beside ours (activation_inventory.h), for code that leaves saving to
// autograd. Source: a published study of MiniMind's tensor and sequence parallelism (docs/memory.md), its sections 4.2
// to 4.4: norms in fp32, whose input and output both stay; query, key, value, gate and up projections as five linear
// layers.
#pragma once

#include "base/units.h"
#include "models/layer_kernels.h"
#include "scenarios/scenario.h"

namespace sluice {

enum class AutogradSharding : std::uint8_t {
    kTensorParallel,  // norms on all rows on every rank; the linear layers share their two inputs
    kGathers,         // norms on the rank's rows; each of the five linear layers keeps the input it gathered
    kGathersAgain,    // they keep the rank's rows and gather again in backward: what Megatron calls sequence parallel
};

// Bytes on one rank: of one block, and of the final norm.
Bytes autograd_block_bytes(const Scenario&, Subsequence, AutogradSharding);
Bytes autograd_final_norm_bytes(const Scenario&, Subsequence, AutogradSharding);

}  // namespace sluice

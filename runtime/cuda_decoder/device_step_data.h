// What a step brings to the GPU before it begins and takes back when it has ended: tokens, losses.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/cuda/device_memory.h"
#include "runtime/cuda_decoder/cuda_rank.h"
#include "runtime/decoder/step_inputs.h"
#include "runtime/run_shape.h"
#include "scenarios/scenario.h"

namespace sluice::cuda {

class DeviceStepData {
public:
    // Room for the steps of this run; nothing is allocated on the device later. `embedded`: by subsequence, the tokens
    // whose rows the rank's embedding makes (with Ulysses its own, otherwise all).
    DeviceStepData(const Scenario& scenario, std::vector<RunSubsequence> embedded, VocabularyShard shard);

    static Bytes bytes(const Scenario& scenario);

    const DeviceTokens& tokens() const { return tokens_; }
    double* loss_sums() const { return losses_.as<double>(); }

    // Checks the tokens (InputError for an id outside the vocabulary) and brings them to the device; losses are 0 then.
    void begin_step(const StepInputs& inputs);
    // By sequence.
    std::vector<double> losses() const;

private:
    // Arrays of one subsequence's sorted tokens lie in a slot of fixed size.
    void sort_into(std::size_t sequence, std::size_t subsequence, std::span<const TokenId> ids);

    std::size_t length_, batch_;
    VocabularyShard shard_;
    std::vector<RunSubsequence> embedded_;
    DeviceMemory ids_, sorted_, losses_;
    DeviceTokens tokens_;
};

}  // namespace sluice::cuda

#include "runtime/decoder/made_tensors.h"

namespace sluice {

bool makes(Function function, Tensor tensor) {
    using enum Tensor;
    switch (tensor) {
        case kBlockInput:
            return function == Function::kNorm1;
        case kNorm1Statistics:
            return function == Function::kNorm1 || function == Function::kNorms;
        case kQuery:
            return function == Function::kAttention || function == Function::kQuery || function == Function::kQkv;
        case kAttentionOutput:
        case kLogSumExp:
            return function == Function::kAttention;
        case kMiddleResidual:
            return function == Function::kNorm2;
        case kNorm2Statistics:
            return function == Function::kNorm2 || function == Function::kNorms;
        case kFirstMlpOutput:
            return function == Function::kMlp;
        case kActivationOutput:
            return function == Function::kMlp || function == Function::kActivation;
        case kNorm1Output:  // of all rows it may be the next op, a gather, that writes the rest
        case kNorm2Output:
            return false;
    }
    return false;
}

}  // namespace sluice

#include "models/autograd_inventory.h"

namespace sluice {
namespace {

// fp32 input and output, on the rows that a rank's norms see.
Bytes norm_bytes(const Scenario& s, Subsequence sub, AutogradSharding sharding) {
    const Bytes whole = 8_B * (sub.length.value * s.model.hidden);
    return sharding == AutogradSharding::kTensorParallel ? whole : Bytes{whole.value / s.policy.sp};
}

}  // namespace

Bytes autograd_block_bytes(const Scenario& s, Subsequence sub, AutogradSharding sharding) {
    const Bytes input = gathered_bytes(s, sub);
    const Bytes norms = norm_bytes(s, sub, sharding) * 2;
    switch (sharding) {
        case AutogradSharding::kTensorParallel:
            return norms + input * 2;
        case AutogradSharding::kGathers:
            return norms + input * 5;
        case AutogradSharding::kGathersAgain:
            return norms + boundary_bytes(s, sub) * 2;
    }
    return {};
}

Bytes autograd_final_norm_bytes(const Scenario& s, Subsequence sub, AutogradSharding sharding) {
    return norm_bytes(s, sub, sharding);
}

}  // namespace sluice

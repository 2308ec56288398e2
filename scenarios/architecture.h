// A decoder-only transformer: its shape, and the constants of its functions.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

enum class ActivationFunction : std::uint8_t { kGelu, kSwiglu };  // SwiGLU has gate and up projections
enum class Norm : std::uint8_t { kLayerNorm, kRmsNorm };
enum class Positions : std::uint8_t { kLearned, kRope };

struct Architecture {
    std::string name;
    std::int64_t layers = 0;
    std::int64_t hidden = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;   // divides heads
    std::int64_t head_dim = 0;   // need not be hidden / heads
    std::int64_t ffn = 0;        // inner width of the MLP
    std::int64_t vocabulary = 0;
    ActivationFunction activation = ActivationFunction::kGelu;
    Norm norm = Norm::kLayerNorm;
    Positions positions = Positions::kLearned;
    bool bias = true;             // on the linear layers
    bool tied_embeddings = true;  // the head uses the embedding's weights
    // No cost depends on these; whoever computes does.
    double rope_theta = 10000;    // base of the angles of rotary positions
    double norm_epsilon = 1e-5;   // added to the variance (RMSNorm: mean square) before the root
};

}  // namespace sluice

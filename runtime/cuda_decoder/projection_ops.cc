// Ulysses: the projections of the rank's tokens, before and behind attention. What is sent and what arrives lies in
// blocks by member (head_blocks.h): of q one, and of k and v one with a member's keys beside its values.
#include <span>
#include <vector>

#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/rotary.h"
#include "runtime/cuda_decoder/bind_op.h"
#include "runtime/decoder/head_blocks.h"

namespace sluice::cuda {
namespace {

using enum Transpose;
using Blocks = HeadBlocksOf<Bf16>;

// Weights, or their gradients, of one member's heads.
template <class Element>
struct MemberWeights {
    BasicMatrixView<Element> query, key, value;
    std::span<Element> query_bias, key_bias, value_bias;  // empty without biases
};

template <class Element>
MemberWeights<Element> weights_of(const CudaRank& c, const LayerParametersOf<Element>& w, std::int64_t member) {
    const std::int64_t q = c.query_width(), kv = c.kv_width(), keys = c.kv_outputs();
    MemberWeights<Element> m{w.query().row_range(member * q, q),
                             w.key_value().row_range(member * kv, kv),
                             w.key_value().row_range(keys + member * kv, kv),
                             {},
                             {},
                             {}};
    if (w.query_bias().empty()) return m;
    const auto part = [](std::span<Element> all, std::int64_t first, std::int64_t count) {
        return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    };
    m.query_bias = part(w.query_bias(), member * q, q);
    m.key_bias = part(w.key_value_bias(), member * kv, kv);
    m.value_bias = part(w.key_value_bias(), keys + member * kv, kv);
    return m;
}

// Columns of the projection that read one member's heads.
template <class Element>
BasicMatrixView<Element> projection_of(const CudaRank& c, const LayerParametersOf<Element>& w, std::int64_t member) {
    return w.projection().column_range(member * c.query_width(), c.query_width());
}

// q, k and v of the rank's tokens, or their gradients.
struct Qkv {
    Blocks query, kv;  // no kv where it is the query alone
    RotaryShape rotary;
    Tokens begin{};  // position of the first token
    bool turns = false;
    std::int64_t kv_width = 0;

    Bf16Matrix key(std::int64_t member) const { return kv.of(member).column_range(0, kv_width); }
    Bf16Matrix value(std::int64_t member) const { return kv.of(member).column_range(kv_width, kv_width); }
    void rotate_all(Stream stream, RotationSense sense) const {
        for (std::int64_t m = 0; m < query.members; ++m) {
            rotate(stream, rotary, begin, sense, query.of(m));
            if (kv.data != nullptr) rotate(stream, rotary, begin, sense, key(m));
        }
    }
};

Blocks query_blocks(const LayerOp& l, std::span<Bf16> space) {
    const Blocks blocks{space.data(), l.rank.shape.shards, l.rank.rows(l.op), l.rank.query_width()};
    if (static_cast<std::int64_t>(space.size()) < blocks.size())
        l.operands.refuse("the exchanged queries have another size");
    return blocks;
}

Qkv qkv_at(const LayerOp& l, std::span<Bf16> space) {
    const CudaRank& c = l.rank;
    const std::int64_t d = c.model().head_dim;
    Qkv p;
    p.query = query_blocks(l, space);
    p.kv_width = c.kv_width();
    const Blocks kv{space.data() + p.query.size(), c.shape.shards, c.rows(l.op), 2 * c.kv_width()};
    if (static_cast<std::int64_t>(space.size()) == p.query.size() + kv.size())
        p.kv = kv;
    else if (static_cast<std::int64_t>(space.size()) != p.query.size() || l.op.tag.function != Function::kQuery)
        l.operands.refuse("the exchanged queries, keys and values have another size");
    p.rotary = {d, d, c.model().rope_theta};
    p.turns = c.model().positions == Positions::kRope;
    p.begin = c.first_position(l.op);
    return p;
}

// y = x w^T + bias
struct Linear {
    Product<Bf16> product;
    std::span<Bf16> bias;
    Bf16Matrix y;

    Linear(const CudaRank& c, ConstBf16Matrix x, ConstBf16Matrix w, std::span<Bf16> bias_in, Bf16Matrix out)
        : product(c, kNo, x, kYes, w, out), bias(bias_in), y(out) {}
    void operator()(Stream stream) const {
        product(stream);
        if (!bias.empty()) add_bias(stream, bias.data(), y);
    }
};

// dw += dy^T x, and the bias' gradient
struct WeightGradient {
    Product<float> product;
    ConstBf16Matrix dy;
    std::span<float> dbias;
    Scratch scratch;

    WeightGradient(const CudaRank& c, ConstBf16Matrix dy_in, ConstBf16Matrix x, Fp32Matrix dw, std::span<float> bias)
        : product(c, kYes, dy_in, kNo, x, dw, Store::kAdd), dy(dy_in), dbias(bias), scratch(c.scratch) {}
    void operator()(Stream stream) const {
        product(stream);
        if (!dbias.empty()) bias_backward(stream, dy, dbias.data(), scratch);
    }
};

ConstBf16Matrix own_norm(const LayerOp& l) {
    return l.operands.matrix(l.operands.tensor(Tensor::kNorm1Output), l.rank.rows(l.op), l.rank.model().hidden);
}

template <class Calls>
void run_all(const Calls& calls, Stream stream) {
    for (const auto& call : calls) call(stream);
}

Store store_of(std::int64_t member) { return member == 0 ? Store::kOverwrite : Store::kAdd; }

}  // namespace

BoundCudaOp bind_qkv_forward(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Qkv p = qkv_at(l, l.operands.of_kind(BufferKind::kComm, AccessMode::kWrite));
    const ConstBf16Matrix x = own_norm(l);
    std::vector<Linear> linears;
    for (std::int64_t m = 0; m < p.query.members; ++m) {
        const MemberWeights<Bf16> w = weights_of(c, l.weights, m);
        linears.emplace_back(c, x, w.query, w.query_bias, p.query.of(m));
        if (p.kv.data == nullptr) continue;
        linears.emplace_back(c, x, w.key, w.key_bias, p.key(m));
        linears.emplace_back(c, x, w.value, w.value_bias, p.value(m));
    }
    return [=](StreamClock& clock) {
        run_all(linears, clock.stream());
        clock.lap();
        if (!p.turns) return;
        p.rotate_all(clock.stream(), RotationSense::kForward);
        clock.lap();
    };
}

BoundCudaOp bind_qkv_backward(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Qkv p = qkv_at(l, l.operands.gathered());
    const ConstBf16Matrix x = own_norm(l);
    const LayerGradients g = layer_gradients(l);
    const Bf16Matrix dx = l.operands.matrix(l.operands.target(), c.rows(op), c.model().hidden);
    std::vector<Product<Bf16>> data;
    std::vector<WeightGradient> weights;
    for (std::int64_t m = 0; m < p.query.members; ++m) {
        const MemberWeights<Bf16> w = weights_of(c, l.weights, m);
        data.emplace_back(c, kNo, p.query.of(m), kNo, w.query, dx, store_of(m));
        data.emplace_back(c, kNo, p.key(m), kNo, w.key, dx, Store::kAdd);
        data.emplace_back(c, kNo, p.value(m), kNo, w.value, dx, Store::kAdd);
        const MemberWeights<float> dw = weights_of(c, g.of, m);
        weights.emplace_back(c, p.query.of(m), x, dw.query, dw.query_bias);
        weights.emplace_back(c, p.key(m), x, dw.key, dw.key_bias);
        weights.emplace_back(c, p.value(m), x, dw.value, dw.value_bias);
    }
    return [=](StreamClock& clock) {
        const Stream stream = clock.stream();
        g.begin(stream);
        if (p.turns) {
            p.rotate_all(stream, RotationSense::kBackward);
            clock.lap();
        }
        run_all(data, stream);
        clock.lap();
        run_all(weights, stream);
        clock.lap();
    };
}

BoundCudaOp bind_projection_forward(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Blocks out = query_blocks(l, l.operands.gathered());
    const Bf16Matrix y = l.operands.matrix(l.operands.target(), c.rows(op), c.model().hidden);
    const std::span<Bf16> bias = l.weights.projection_bias();
    std::vector<Product<Bf16>> products;
    for (std::int64_t m = 0; m < out.members; ++m)
        products.emplace_back(c, kNo, out.of(m), kYes, projection_of(c, l.weights, m), y, store_of(m));
    return [=](StreamClock& clock) {
        run_all(products, clock.stream());
        if (!bias.empty()) add_bias(clock.stream(), bias.data(), y);
        clock.lap();
    };
}

BoundCudaOp bind_projection_backward(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Blocks dout = query_blocks(l, l.operands.of_kind(BufferKind::kComm, AccessMode::kWrite));
    const ConstBf16Matrix dy = l.operands.matrix(l.operands.stream(0), c.rows(op), c.model().hidden);
    std::vector<Product<Bf16>> products;
    for (std::int64_t m = 0; m < dout.members; ++m)
        products.emplace_back(c, kNo, dy, kNo, projection_of(c, l.weights, m), dout.of(m));
    return [=](StreamClock& clock) {
        run_all(products, clock.stream());
        clock.lap();
    };
}

BoundCudaOp bind_projection_weight(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Blocks out = query_blocks(l, l.operands.gathered());
    const ConstBf16Matrix dy = l.operands.matrix(l.operands.stream(0), c.rows(op), c.model().hidden);
    const LayerGradients g = layer_gradients(l);
    const std::span<float> dbias = g.of.projection_bias();
    std::vector<Product<float>> products;
    for (std::int64_t m = 0; m < out.members; ++m)
        products.emplace_back(c, kYes, dy, kNo, out.of(m), projection_of(c, g.of, m), Store::kAdd);
    const Scratch scratch = c.scratch;
    return [=](StreamClock& clock) {
        g.begin(clock.stream());
        run_all(products, clock.stream());
        if (!dbias.empty()) bias_backward(clock.stream(), dy, dbias.data(), scratch);
        clock.lap();
    };
}

}  // namespace sluice::cuda

#include "runtime/parameter_layout.h"

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "runtime/share_states.h"

namespace sluice {
namespace {

enum class Family : std::uint8_t { kLlama, kGpt2, kNeox };

Family family_of(const Architecture& a) {
    if (a.norm == Norm::kRmsNorm || a.activation == ActivationFunction::kSwiglu) return Family::kLlama;
    return a.positions == Positions::kRope && a.heads == a.kv_heads ? Family::kNeox : Family::kGpt2;
}

// Names in Hugging Face's checkpoints: LlamaForCausalLM, GPT2LMHeadModel, GPTNeoXForCausalLM.
struct Names {
    std::string layer;  // prefix of layer {}
    std::string norm1, norm2, query, key, value, projection, gate, up, first, second, fused;
    std::string table, positions, final_norm, head;
};

Names names_of(Family family) {
    Names n;
    switch (family) {
        case Family::kLlama:
            n.layer = "model.layers.{}.";
            n.norm1 = "input_layernorm", n.norm2 = "post_attention_layernorm";
            n.query = "self_attn.q_proj", n.key = "self_attn.k_proj", n.value = "self_attn.v_proj";
            n.projection = "self_attn.o_proj", n.gate = "mlp.gate_proj", n.up = n.first = "mlp.up_proj";
            n.second = "mlp.down_proj", n.table = "model.embed_tokens.weight";
            n.positions = "model.embed_positions.weight", n.final_norm = "model.norm", n.head = "lm_head.weight";
            break;
        case Family::kGpt2:
            n.layer = "transformer.h.{}.";
            n.norm1 = "ln_1", n.norm2 = "ln_2", n.fused = "attn.c_attn", n.projection = "attn.c_proj";
            n.first = "mlp.c_fc", n.second = "mlp.c_proj", n.table = "transformer.wte.weight";
            n.positions = "transformer.wpe.weight", n.final_norm = "transformer.ln_f", n.head = "lm_head.weight";
            break;
        case Family::kNeox:
            n.layer = "gpt_neox.layers.{}.";
            n.norm1 = "input_layernorm", n.norm2 = "post_attention_layernorm";
            n.fused = "attention.query_key_value", n.projection = "attention.dense";
            n.first = "mlp.dense_h_to_4h", n.second = "mlp.dense_4h_to_h", n.table = "gpt_neox.embed_in.weight";
            n.positions = "gpt_neox.embed_positions.weight", n.final_norm = "gpt_neox.final_layer_norm";
            n.head = "embed_out.weight";
            break;
    }
    return n;
}

class Builder {
public:
    Builder(const Scenario& scenario, const RunShape& shape, Rank rank)
        : a_(scenario.model),
          role_(shape.ranks[index(rank)]),
          shards_(shape.weight_shards),
          shard_(shards_ > 1 ? role_.shard : 0),
          all_on_every_shard_(shape.shards > shards_),
          positions_(scenario.sequence.value),
          one_stage_(shape.stages == 1),
          first_(shape.first_stage(rank)),
          last_(shape.last_stage(rank)),
          family_(family_of(a_)),
          names_(names_of(family_)) {}

    ParameterLayout build() && {
        for (std::int64_t l = 0; l < role_.layers; ++l) out_.layers.push_back(part([&] { layer(l); }));
        if (first_) out_.embedding_part = part([&] { embedding(); });
        if (last_) out_.head_part = part([&] { head(); });
        if (all_on_every_shard_)
            for (ParameterSlice& slice : out_.slices) slice.replicated = true;
        for (ParameterSlice& slice : out_.slices) slice.stepped = slice.held(), slice.state = slice.offset;
        out_.state_elements = out_.elements;
        return std::move(out_);
    }

private:
    template <class Fill>
    ParameterPart part(Fill fill) {
        ParameterPart p{out_.elements, 0};
        start_ = p.offset;
        fill();
        p.elements = out_.elements - p.offset;
        out_.parts.push_back(p);
        return p;
    }

    // Appends a slice and returns its offset in the part.
    std::int64_t add(ParameterSlice slice) {
        slice.offset = out_.elements;
        slice.part = out_.parts.size();
        out_.elements += slice.held();
        out_.slices.push_back(std::move(slice));
        return out_.slices.back().offset - start_;
    }

    std::int64_t add_vector(const std::string& name, std::int64_t size, std::int64_t first, std::int64_t held) {
        ParameterSlice s;
        s.name = name, s.vector = true, s.columns = size;
        s.first_column = first, s.held_columns = held, s.replicated = held == size && shards_ > 1;
        return add(std::move(s));
    }

    std::int64_t add_rows(const std::string& name, std::int64_t rows, std::int64_t columns, std::int64_t first,
                          std::int64_t held) {
        ParameterSlice s;
        s.name = name, s.rows = rows, s.columns = s.held_columns = columns;
        s.first_row = first, s.held_rows = held, s.decays = true, s.initial = Initial::kNormal;
        s.transposed = family_ == Family::kGpt2 && linear_;
        return add(std::move(s));
    }

    std::int64_t add_columns(const std::string& name, std::int64_t rows, std::int64_t columns) {
        ParameterSlice s;
        s.name = name, s.rows = s.held_rows = rows, s.columns = columns;
        s.held_columns = columns / shards_, s.first_column = shard_ * s.held_columns;
        s.decays = true, s.transposed = family_ == Family::kGpt2, s.initial = Initial::kResidual;
        return add(std::move(s));
    }

    // Weight and, for LayerNorm, bias; returns their offsets.
    std::pair<std::int64_t, std::int64_t> add_norm(const std::string& name) {
        const std::int64_t weight = add_vector(name + ".weight", a_.hidden, 0, a_.hidden);
        out_.slices.back().initial = Initial::kOne;
        return {weight, a_.norm == Norm::kLayerNorm ? add_vector(name + ".bias", a_.hidden, 0, a_.hidden) : kAbsent};
    }

    // One of several outputs that lie side by side in a matrix of the checkpoint.
    struct Output {
        std::string name;
        std::int64_t rows;         // in the checkpoint's matrix
        std::int64_t first, held;  // rows of it that this shard has, one behind the other
    };

    // The query, key and value rows of this shard, in this order.
    std::vector<Output> qkv_outputs(const std::string& prefix) const {
        const std::int64_t q = a_.heads * a_.head_dim, kv = a_.kv_heads * a_.head_dim, d = a_.head_dim;
        const std::int64_t held_q = q / shards_, held_kv = kv / shards_, t = shard_;
        if (family_ == Family::kLlama)
            return {{prefix + names_.query, q, t * held_q, held_q},
                    {prefix + names_.key, kv, t * held_kv, held_kv},
                    {prefix + names_.value, kv, t * held_kv, held_kv}};
        const std::string fused = prefix + names_.fused;
        if (family_ == Family::kGpt2)
            return {{fused, q + 2 * kv, t * held_q, held_q},
                    {fused, q + 2 * kv, q + t * held_kv, held_kv},
                    {fused, q + 2 * kv, q + kv + t * held_kv, held_kv}};
        std::vector<Output> outputs;  // NeoX: query, key and value of a head, then those of the next
        for (std::int64_t which = 0; which < 3; ++which)
            for (std::int64_t head = t * a_.heads / shards_; head < (t + 1) * a_.heads / shards_; ++head)
                outputs.push_back({fused, 3 * q, (head * 3 + which) * d, d});
        return outputs;
    }

    std::vector<Output> first_outputs(const std::string& prefix) const {
        const std::int64_t held = a_.ffn / shards_, first = shard_ * held;
        std::vector<Output> outputs;
        if (a_.activation == ActivationFunction::kSwiglu)
            outputs.push_back({prefix + names_.gate, a_.ffn, first, held});
        outputs.push_back({prefix + names_.first, a_.ffn, first, held});
        return outputs;
    }

    // A column-parallel linear layer: offsets of its matrix and of its bias.
    std::pair<std::int64_t, std::int64_t> add_outputs(const std::vector<Output>& outputs) {
        std::int64_t weight = kAbsent, bias = kAbsent;
        for (const Output& o : outputs) {
            const std::int64_t at = add_rows(o.name + ".weight", o.rows, a_.hidden, o.first, o.held);
            if (weight == kAbsent) weight = at;
        }
        for (const Output& o : outputs) {
            if (!a_.bias) break;
            const std::int64_t at = add_vector(o.name + ".bias", o.rows, o.first, o.held);
            if (bias == kAbsent) bias = at;
        }
        return {weight, bias};
    }

    void layer(std::int64_t l) {
        const std::string prefix = fmt::format(fmt::runtime(names_.layer), role_.first_layer + l);
        LayerOffsets& o = out_.layer;
        linear_ = true;
        std::tie(o.norm1, o.norm1_bias) = add_norm(prefix + names_.norm1);
        std::tie(o.qkv, o.qkv_bias) = add_outputs(qkv_outputs(prefix));
        o.projection = add_columns(prefix + names_.projection + ".weight", a_.hidden, a_.heads * a_.head_dim);
        if (a_.bias) o.projection_bias = add_vector(prefix + names_.projection + ".bias", a_.hidden, 0, a_.hidden);
        std::tie(o.norm2, o.norm2_bias) = add_norm(prefix + names_.norm2);
        std::tie(o.first, o.first_bias) = add_outputs(first_outputs(prefix));
        o.second = add_columns(prefix + names_.second + ".weight", a_.hidden, a_.ffn);
        if (a_.bias) o.second_bias = add_vector(prefix + names_.second + ".bias", a_.hidden, 0, a_.hidden);
        linear_ = false;
    }

    // The last shards' rows beyond the vocabulary are padding.
    std::int64_t add_table(const std::string& name) {
        const std::int64_t held = (a_.vocabulary + shards_ - 1) / shards_;
        const std::int64_t at = add_rows(name, a_.vocabulary, a_.hidden, shard_ * held, held);
        out_.slices.back().table = true;
        return at;
    }

    void embedding() {
        out_.embedding.table = add_table(names_.table);
        if (a_.positions != Positions::kLearned) return;
        out_.embedding.positions = add_rows(names_.positions, positions_, a_.hidden, 0, positions_);
        out_.slices.back().replicated = shards_ > 1;
    }

    void head() {
        if (!a_.tied_embeddings || !one_stage_)
            out_.head.table = add_table(a_.tied_embeddings ? names_.table : names_.head);
        out_.copies_tied_table = a_.tied_embeddings && !one_stage_;
        std::tie(out_.head.norm, out_.head.norm_bias) = add_norm(names_.final_norm);
    }

    const Architecture& a_;
    const RankRole& role_;
    std::int64_t shards_, shard_;  // that hold a weight matrix together, and which of them this one is
    bool all_on_every_shard_;
    std::int64_t positions_;
    bool one_stage_, first_, last_;
    Family family_;
    Names names_;
    bool linear_ = false;  // the matrices at hand are of linear layers, not tables
    std::int64_t start_ = 0;
    ParameterLayout out_;
};

}  // namespace

ParameterLayout parameter_layout(const Scenario& scenario, const RunShape& shape, Rank rank) {
    ParameterLayout layout = Builder(scenario, shape, rank).build();
    if (shape.shares_states) share_states(layout, shape.ranks[index(rank)].replica, shape.replicas);
    return layout;
}

}  // namespace sluice

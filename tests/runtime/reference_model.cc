#include "tests/runtime/reference_model.h"

#include <cmath>
#include <functional>
#include <stdexcept>

namespace sluice {
namespace {

using Matrix = ReferenceMatrix;
using Integer = std::int64_t;

Matrix zeros(Integer rows, Integer columns) {
    return {rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns), 0)};
}

// Values with their gradients; every operation notes how to go back.
class Tape {
public:
    using Var = std::size_t;

    Var put(Matrix value) {
        gradients_.push_back(zeros(value.rows, value.columns));
        values_.push_back(std::move(value));
        return values_.size() - 1;
    }
    const Matrix& value(Var v) const { return values_[v]; }
    Matrix& gradient(Var v) { return gradients_[v]; }

    void back(std::function<void()> step) { steps_.push_back(std::move(step)); }
    void run_back() {
        for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) (*step)();
    }

    // y = x w^T, or x w.
    Var linear(Var x, Var w, bool transposed) {
        const Integer in = value(x).columns, out = transposed ? value(w).columns : value(w).rows;
        const auto weight = [transposed](const Matrix& m, Integer o, Integer i) {
            return transposed ? m.at(i, o) : m.at(o, i);
        };
        Matrix y = zeros(value(x).rows, out);
        for (Integer r = 0; r < y.rows; ++r)
            for (Integer o = 0; o < out; ++o)
                for (Integer i = 0; i < in; ++i) y.at(r, o) += value(x).at(r, i) * weight(value(w), o, i);
        const Var result = put(std::move(y));
        back([this, x, w, result, in, out, transposed, weight] {
            const Matrix& d = gradient(result);
            for (Integer r = 0; r < d.rows; ++r)
                for (Integer o = 0; o < out; ++o)
                    for (Integer i = 0; i < in; ++i) {
                        gradient(x).at(r, i) += d.at(r, o) * weight(value(w), o, i);
                        (transposed ? gradient(w).at(i, o) : gradient(w).at(o, i)) += d.at(r, o) * value(x).at(r, i);
                    }
        });
        return result;
    }

    Var add(Var a, Var b) {
        Matrix y = value(a);
        for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += value(b).values[i];
        const Var result = put(std::move(y));
        back([this, a, b, result] {
            for (std::size_t i = 0; i < gradient(result).values.size(); ++i) {
                gradient(a).values[i] += gradient(result).values[i];
                gradient(b).values[i] += gradient(result).values[i];
            }
        });
        return result;
    }

    // The bias is one row.
    Var add_bias(Var x, Var bias) {
        Matrix y = value(x);
        for (Integer r = 0; r < y.rows; ++r)
            for (Integer c = 0; c < y.columns; ++c) y.at(r, c) += value(bias).at(0, c);
        const Var result = put(std::move(y));
        back([this, x, bias, result] {
            const Matrix& d = gradient(result);
            for (Integer r = 0; r < d.rows; ++r)
                for (Integer c = 0; c < d.columns; ++c) {
                    gradient(x).at(r, c) += d.at(r, c);
                    gradient(bias).at(0, c) += d.at(r, c);
                }
        });
        return result;
    }

    // Columns [first, first + count).
    Var columns(Var x, Integer first, Integer count) {
        return gather_columns(x, count, [first](Integer c) { return first + c; });
    }
    Var gather_columns(Var x, Integer count, std::function<Integer(Integer)> from) {
        Matrix y = zeros(value(x).rows, count);
        for (Integer r = 0; r < y.rows; ++r)
            for (Integer c = 0; c < count; ++c) y.at(r, c) = value(x).at(r, from(c));
        const Var result = put(std::move(y));
        back([this, x, result, count, from] {
            for (Integer r = 0; r < gradient(result).rows; ++r)
                for (Integer c = 0; c < count; ++c) gradient(x).at(r, from(c)) += gradient(result).at(r, c);
        });
        return result;
    }

    // Row ids[t] of the table, for every t.
    Var lookup(Var table, std::vector<std::int32_t> ids) {
        Matrix y = zeros(static_cast<Integer>(ids.size()), value(table).columns);
        for (Integer t = 0; t < y.rows; ++t)
            for (Integer c = 0; c < y.columns; ++c) y.at(t, c) = value(table).at(ids[static_cast<std::size_t>(t)], c);
        const Var result = put(std::move(y));
        back([this, table, result, ids] {
            const Matrix& d = gradient(result);
            for (Integer t = 0; t < d.rows; ++t)
                for (Integer c = 0; c < d.columns; ++c)
                    gradient(table).at(ids[static_cast<std::size_t>(t)], c) += d.at(t, c);
        });
        return result;
    }

    // y = f(x) element by element, with f'.
    Var each(Var x, const std::function<double(double)>& f, std::function<double(double)> derivative) {
        Matrix y = value(x);
        for (double& v : y.values) v = f(v);
        const Var result = put(std::move(y));
        back([this, x, result, derivative] {
            for (std::size_t i = 0; i < value(x).values.size(); ++i)
                gradient(x).values[i] += gradient(result).values[i] * derivative(value(x).values[i]);
        });
        return result;
    }

    Var multiply(Var a, Var b) {
        Matrix y = value(a);
        for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] *= value(b).values[i];
        const Var result = put(std::move(y));
        back([this, a, b, result] {
            for (std::size_t i = 0; i < gradient(result).values.size(); ++i) {
                gradient(a).values[i] += gradient(result).values[i] * value(b).values[i];
                gradient(b).values[i] += gradient(result).values[i] * value(a).values[i];
            }
        });
        return result;
    }

    // Rows divided by their root mean square (of what is left after taking the mean away, with `centred`).
    Var normalise(Var x, bool centred, double epsilon) {
        Matrix y = value(x);
        std::vector<double> scales;
        const auto n = static_cast<double>(y.columns);
        for (Integer r = 0; r < y.rows; ++r) {
            double mean = 0, squares = 0;
            for (Integer c = 0; c < y.columns && centred; ++c) mean += y.at(r, c) / n;
            for (Integer c = 0; c < y.columns; ++c) squares += (y.at(r, c) - mean) * (y.at(r, c) - mean) / n;
            scales.push_back(1 / std::sqrt(squares + epsilon));
            for (Integer c = 0; c < y.columns; ++c) y.at(r, c) = (y.at(r, c) - mean) * scales.back();
        }
        const Var result = put(std::move(y));
        back([this, x, result, centred, scales, n] {
            const Matrix &d = gradient(result), &z = value(result);
            for (Integer r = 0; r < d.rows; ++r) {
                double along = 0, mean = 0;
                for (Integer c = 0; c < d.columns; ++c) along += d.at(r, c) * z.at(r, c) / n;
                for (Integer c = 0; c < d.columns && centred; ++c) mean += d.at(r, c) / n;
                for (Integer c = 0; c < d.columns; ++c)
                    gradient(x).at(r, c) +=
                        scales[static_cast<std::size_t>(r)] * (d.at(r, c) - mean - z.at(r, c) * along);
            }
        });
        return result;
    }

    // Heads side by side, each turned by its position: value j with value j + d / 2.
    Var rope(Var x, Integer d, double theta) {
        Matrix y = value(x);
        const auto turn = [d, theta](Matrix& m, double sense) {
            for (Integer t = 0; t < m.rows; ++t)
                for (Integer head = 0; head < m.columns / d; ++head)
                    for (Integer j = 0; j < d / 2; ++j) {
                        const double angle = sense * static_cast<double>(t) *
                                             std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(d));
                        double &a = m.at(t, head * d + j), &b = m.at(t, head * d + j + d / 2);
                        const double first = a * std::cos(angle) - b * std::sin(angle);
                        b = b * std::cos(angle) + a * std::sin(angle), a = first;
                    }
        };
        turn(y, 1);
        const Var result = put(std::move(y));
        back([this, x, result, turn] {
            Matrix d_back = gradient(result);
            turn(d_back, -1);
            for (std::size_t i = 0; i < d_back.values.size(); ++i) gradient(x).values[i] += d_back.values[i];
        });
        return result;
    }

    // Causal attention, heads side by side; query head h reads K/V head h / (heads / kv_heads).
    Var attention(Var q, Var k, Var v, Integer heads, Integer kv_heads, Integer d) {
        const Integer s = value(q).rows;
        const double scale = 1 / std::sqrt(static_cast<double>(d));
        Matrix out = zeros(s, heads * d);
        std::vector<Matrix> all;
        for (Integer h = 0; h < heads; ++h) {
            const Integer of = h / (heads / kv_heads);
            Matrix p = zeros(s, s);
            for (Integer i = 0; i < s; ++i) {
                double top = -1e300, sum = 0;
                for (Integer j = 0; j <= i; ++j) {
                    for (Integer c = 0; c < d; ++c)
                        p.at(i, j) += value(q).at(i, h * d + c) * value(k).at(j, of * d + c);
                    p.at(i, j) *= scale, top = std::max(top, p.at(i, j));
                }
                for (Integer j = 0; j <= i; ++j) sum += p.at(i, j) = std::exp(p.at(i, j) - top);
                for (Integer j = 0; j <= i; ++j) {
                    p.at(i, j) /= sum;
                    for (Integer c = 0; c < d; ++c) out.at(i, h * d + c) += p.at(i, j) * value(v).at(j, of * d + c);
                }
            }
            all.push_back(std::move(p));
        }
        const Var result = put(std::move(out));
        back([=, this] {
            const Matrix& dout = gradient(result);
            for (Integer h = 0; h < heads; ++h) {
                const Integer of = h / (heads / kv_heads);
                const Matrix& p = all[static_cast<std::size_t>(h)];
                for (Integer i = 0; i < s; ++i) {
                    std::vector<double> dp(static_cast<std::size_t>(i + 1));
                    double along = 0;
                    for (Integer j = 0; j <= i; ++j) {
                        double& x = dp[static_cast<std::size_t>(j)];
                        for (Integer c = 0; c < d; ++c) {
                            x += dout.at(i, h * d + c) * value(v).at(j, of * d + c);
                            gradient(v).at(j, of * d + c) += p.at(i, j) * dout.at(i, h * d + c);
                        }
                        along += x * p.at(i, j);
                    }
                    for (Integer j = 0; j <= i; ++j) {
                        const double ds = p.at(i, j) * (dp[static_cast<std::size_t>(j)] - along) * scale;
                        for (Integer c = 0; c < d; ++c) {
                            gradient(q).at(i, h * d + c) += ds * value(k).at(j, of * d + c);
                            gradient(k).at(j, of * d + c) += ds * value(q).at(i, h * d + c);
                        }
                    }
                }
            }
        });
        return result;
    }

    // Sum over rows of -log softmax at the target; its gradient is divided by `tokens`.
    double cross_entropy(Var logits, const std::vector<std::int32_t>& targets, double tokens) {
        double loss = 0;
        Matrix& d = gradient(logits);
        for (Integer t = 0; t < value(logits).rows; ++t) {
            const std::int32_t target = targets[static_cast<std::size_t>(t)];
            double top = -1e300, sum = 0;
            for (Integer c = 0; c < d.columns; ++c) top = std::max(top, value(logits).at(t, c));
            for (Integer c = 0; c < d.columns; ++c) sum += std::exp(value(logits).at(t, c) - top);
            loss += std::log(sum) + top - value(logits).at(t, target);
            for (Integer c = 0; c < d.columns; ++c)
                d.at(t, c) = (std::exp(value(logits).at(t, c) - top) / sum - (c == target ? 1 : 0)) / tokens;
        }
        return loss;
    }

private:
    std::vector<Matrix> values_, gradients_;
    std::vector<std::function<void()>> steps_;
};

// The decoder on a tape, with the names of the family that the architecture is of.
class Model {
public:
    Model(const Architecture& a, const ReferenceParameters& parameters) : a_(a), parameters_(parameters) {
        llama_ = a.norm == Norm::kRmsNorm || a.activation == ActivationFunction::kSwiglu;
        neox_ = !llama_ && a.positions == Positions::kRope && a.heads == a.kv_heads;
    }

    double sequence(const std::vector<std::int32_t>& inputs, const std::vector<std::int32_t>& targets, double tokens) {
        const std::string wte = llama_  ? "model.embed_tokens.weight"
                                : neox_ ? "gpt_neox.embed_in.weight"
                                        : "transformer.wte.weight";
        Tape::Var x = tape_.lookup(use(wte), inputs);
        if (a_.positions == Positions::kLearned) {
            std::vector<std::int32_t> positions;
            for (std::size_t t = 0; t < inputs.size(); ++t) positions.push_back(static_cast<std::int32_t>(t));
            x = tape_.add(
                x, tape_.lookup(use(llama_ ? "model.embed_positions.weight" : "transformer.wpe.weight"), positions));
        }
        for (Integer l = 0; l < a_.layers; ++l) x = layer(x, l);
        x = norm(x, llama_ ? "model.norm" : neox_ ? "gpt_neox.final_layer_norm" : "transformer.ln_f");
        const std::string head = a_.tied_embeddings ? wte : neox_ ? "embed_out.weight" : "lm_head.weight";
        return tape_.cross_entropy(tape_.linear(x, use(head), false), targets, tokens);
    }

    void back(ReferenceParameters& gradients) {
        tape_.run_back();
        for (const auto& [name, var] : used_) {
            Matrix& sum = gradients[name];
            if (sum.values.empty()) sum = zeros(tape_.value(var).rows, tape_.value(var).columns);
            for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += tape_.gradient(var).values[i];
        }
    }

private:
    Tape::Var use(const std::string& name) {
        const auto known = used_.find(name);
        if (known != used_.end()) return known->second;
        const auto found = parameters_.find(name);
        if (found == parameters_.end()) throw std::runtime_error("the reference finds no parameter " + name);
        return used_[name] = tape_.put(found->second);
    }

    Tape::Var linear(Tape::Var x, const std::string& name) {
        const Tape::Var y = tape_.linear(x, use(name + ".weight"), !llama_ && !neox_);
        return a_.bias ? tape_.add_bias(y, use(name + ".bias")) : y;
    }

    Tape::Var norm(Tape::Var x, const std::string& name) {
        const bool centred = a_.norm == Norm::kLayerNorm;
        const Tape::Var z = tape_.normalise(x, centred, a_.norm_epsilon);
        Matrix ones = zeros(tape_.value(x).rows, 1);
        for (double& v : ones.values) v = 1;
        // weight times z: the weight as a diagonal, spelled out by a lookup of its one row
        const Tape::Var w = tape_.lookup(use(name + ".weight"), std::vector<std::int32_t>(ones.values.size(), 0));
        const Tape::Var y = tape_.multiply(z, w);
        return centred ? tape_.add_bias(y, use(name + ".bias")) : y;
    }

    Tape::Var layer(Tape::Var x, Integer l) {
        const std::string at = (llama_  ? "model.layers."
                                : neox_ ? "gpt_neox.layers."
                                        : "transformer.h.") +
                               std::to_string(l) + ".";
        const std::string norm1 = llama_ || neox_ ? "input_layernorm" : "ln_1";
        const std::string norm2 = llama_ || neox_ ? "post_attention_layernorm" : "ln_2";
        x = tape_.add(x, attention(norm(x, at + norm1), at));
        return tape_.add(x, mlp(norm(x, at + norm2), at));
    }

    Tape::Var attention(Tape::Var x, const std::string& at) {
        const Integer d = a_.head_dim, q_width = a_.heads * d, kv_width = a_.kv_heads * d;
        Tape::Var q, k, v;
        if (llama_) {
            q = linear(x, at + "self_attn.q_proj"), k = linear(x, at + "self_attn.k_proj");
            v = linear(x, at + "self_attn.v_proj");
        } else {
            const Tape::Var all = linear(x, at + (neox_ ? "attention.query_key_value" : "attn.c_attn"));
            const auto part = [&](Integer which, Integer width, Integer first) {
                if (!neox_) return tape_.columns(all, first, width);
                return tape_.gather_columns(all, width, [=](Integer c) { return (c / d * 3 + which) * d + c % d; });
            };
            q = part(0, q_width, 0), k = part(1, kv_width, q_width), v = part(2, kv_width, q_width + kv_width);
        }
        if (a_.positions == Positions::kRope) q = tape_.rope(q, d, a_.rope_theta), k = tape_.rope(k, d, a_.rope_theta);
        const Tape::Var out = tape_.attention(q, k, v, a_.heads, a_.kv_heads, d);
        return linear(out, at + (llama_ ? "self_attn.o_proj" : neox_ ? "attention.dense" : "attn.c_proj"));
    }

    Tape::Var mlp(Tape::Var x, const std::string& at) {
        const Tape::Var up = linear(x, at + (llama_ ? "mlp.up_proj" : neox_ ? "mlp.dense_h_to_4h" : "mlp.c_fc"));
        const std::string down = at + (llama_ ? "mlp.down_proj" : neox_ ? "mlp.dense_4h_to_h" : "mlp.c_proj");
        if (a_.activation == ActivationFunction::kSwiglu) {
            const auto sigmoid = [](double g) { return 1 / (1 + std::exp(-g)); };
            const Tape::Var gate = tape_.each(
                linear(x, at + "mlp.gate_proj"), [sigmoid](double g) { return g * sigmoid(g); },
                [sigmoid](double g) { return sigmoid(g) * (1 + g * (1 - sigmoid(g))); });
            return linear(tape_.multiply(gate, up), down);
        }
        return linear(a_.positions == Positions::kRope ? gelu_erf(up) : gelu_tanh(up), down);
    }

    Tape::Var gelu_erf(Tape::Var x) {
        const double root = std::sqrt(2.0), pi = std::acos(-1.0);
        return tape_.each(
            x, [=](double v) { return v / 2 * std::erfc(-v / root); },
            [=](double v) { return std::erfc(-v / root) / 2 + v * std::exp(-v * v / 2) / std::sqrt(2 * pi); });
    }

    Tape::Var gelu_tanh(Tape::Var x) {
        const double c = std::sqrt(2 / std::acos(-1.0));
        const auto inner = [c](double v) { return std::tanh(c * (v + 0.044715 * v * v * v)); };
        return tape_.each(
            x, [=](double v) { return v / 2 * (1 + inner(v)); },
            [=](double v) {
                const double t = inner(v);
                return (1 + t) / 2 + v / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * v * v);
            });
    }

    const Architecture& a_;
    const ReferenceParameters& parameters_;
    bool llama_ = false, neox_ = false;
    Tape tape_;
    std::map<std::string, Tape::Var> used_;
};

}  // namespace

ReferenceResult reference_model(const Architecture& architecture, const ReferenceParameters& parameters,
                                const std::vector<std::vector<std::int32_t>>& inputs,
                                const std::vector<std::vector<std::int32_t>>& targets) {
    double tokens = 0;
    for (const auto& sequence : inputs) tokens += static_cast<double>(sequence.size());
    ReferenceResult result;
    for (std::size_t q = 0; q < inputs.size(); ++q) {
        Model model(architecture, parameters);
        result.loss += model.sequence(inputs[q], targets[q], tokens) / tokens;
        model.back(result.gradients);
    }
    return result;
}

}  // namespace sluice

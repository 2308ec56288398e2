#include "runtime/cuda/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/cuda/attention_graphs.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/rotary.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kTile = 128;       // keys; an unmasked backward of 64 more than a multiple can give NaN
constexpr std::int64_t kAlignment = 256;  // of what lies in the workspace
constexpr std::uintptr_t kBaseAlignment = 16;

std::int64_t end_of(const AttentionShape& s) { return s.begin.value + s.length.value; }

std::string text(const AttentionShape& s) {
    return fmt::format("attention of {} queries from {}, {}/{} heads of {}", s.length.value, s.begin.value, s.heads,
                       s.kv_heads, s.head_dim);
}

using ShapeKey = std::array<std::int64_t, 5>;
ShapeKey key_of(const AttentionShape& s) { return {s.begin.value, s.length.value, s.heads, s.kv_heads, s.head_dim}; }

void check_supported(const AttentionShape& s) {
    const auto refuse = [&](const char* why) { throw InputError(fmt::format("{}: {}", text(s), why)); };
    if (s.head_dim % 8 != 0 || s.head_dim < 8 || s.head_dim > 128)
        refuse("cuDNN takes a head_dim that is a multiple of 8, up to 128");
    if (s.kv_heads < 1 || s.heads % s.kv_heads != 0) refuse("heads must be a multiple of kv_heads");
    if (s.begin.value < 0 || s.length.value < 1) refuse("there is nothing to attend");
    if (s.length.value == 1) refuse("cuDNN's backward of a single query is not reliable; cut the sequence elsewhere");
}

// The stretches of a forward call. What would be left as less than a tile goes with the last.
std::vector<AttentionShape> stretches_of(const AttentionShape& s, std::int64_t queries_at_once) {
    std::vector<AttentionShape> stretches;
    for (std::int64_t first = 0, count = 0; first < s.length.value; first += count) {
        const std::int64_t left = s.length.value - first;
        count = left < queries_at_once + kTile ? left : queries_at_once;
        AttentionShape stretch = s;
        stretch.begin = s.begin + Tokens{first}, stretch.length = Tokens{count};
        stretches.push_back(stretch);
    }
    return stretches;
}

// Keys [first, first + count) of a backward call.
struct KeyRange {
    std::int64_t first = 0, count = 0;
    bool causal = false;
};

std::vector<KeyRange> parts_of(const AttentionShape& s, std::int64_t keys_at_once) {
    const std::int64_t unmasked = s.begin.value / kTile * kTile;
    std::vector<KeyRange> parts;
    for (std::int64_t first = 0; first < unmasked; first += keys_at_once)
        parts.push_back({first, std::min(keys_at_once, unmasked - first), false});
    parts.push_back({unmasked, end_of(s) - unmasked, true});
    return parts;
}

// What a backward call keeps in its workspace, by offset.
struct BackwardLayout {
    std::int64_t key_gradient = 0, value_gradient = 0;        // bf16, of the part at hand
    std::int64_t out_dot = 0, query_accumulator = 0;          // fp32, of the part at hand
    std::int64_t query_gradient = 0, query_gradient_sum = 0;  // of the part at hand, bf16; fp32, or bf16 of the first
                                                              // of two parts. One part: neither
    std::int64_t of_cudnn = 0;                                // cuDNN's own
    std::int64_t bytes = 0;
};

BackwardLayout lay_out(const AttentionShape& s, std::int64_t parts, std::int64_t keys, std::int64_t of_cudnn,
                       bool deterministic) {
    BackwardLayout l;
    const auto place = [&](std::int64_t bytes) {
        return std::exchange(l.bytes, (l.bytes + bytes + kAlignment - 1) / kAlignment * kAlignment);
    };
    const std::int64_t queries = s.length.value * s.heads, elements = queries * s.head_dim;
    l.key_gradient = place(2 * keys * s.kv_heads * s.head_dim);
    l.value_gradient = place(2 * keys * s.kv_heads * s.head_dim);
    l.out_dot = place(4 * queries);
    l.query_accumulator = place(deterministic ? 0 : 4 * elements);
    l.query_gradient = place(parts > 1 ? 2 * elements : 0);
    l.query_gradient_sum = place(parts > 1 ? 4 * elements : 0);
    l.of_cudnn = place(of_cudnn);
    return l;
}

struct Stretch {
    std::int64_t first = 0;  // of its queries
    const ExecutionPlan* plan = nullptr;
};
struct Part {
    KeyRange keys;
    const ExecutionPlan* plan = nullptr;
};

struct Prepared {
    AttentionPlans::Strides strides;
    std::vector<Stretch> forward;
    std::vector<Part> backward;
    BackwardLayout layout;
};

template <class Matrix>
void check_operand(const Matrix& m, const char* name, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    SLUICE_CHECK(
        m.rows == rows && m.columns == columns && m.stride == stride &&
            reinterpret_cast<std::uintptr_t>(m.data) % kBaseAlignment == 0,
        fmt::format("attention's {} is as prepared, ({}, {}) with stride {} at a multiple of 16 bytes; got ({}, {}) "
                    "with stride {}",
                    name, rows, columns, stride, m.rows, m.columns, m.stride));
}

void check_operands(const AttentionShape& s, const AttentionPlans::Strides& strides, const AttentionOperands& in,
                    const ConstAttentionSaved& saved) {
    const std::int64_t width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
    check_operand(in.query, "query", s.length.value, width, strides.query);
    check_operand(in.key, "key", end_of(s), kv_width, strides.key_value);
    check_operand(in.value, "value", end_of(s), kv_width, strides.key_value);
    check_operand(saved.out, "out", s.length.value, width, width);
    SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(saved.log_sum_exp) % kBaseAlignment == 0,
                 "attention's log-sum-exp begins at a multiple of 16 bytes");
}

}  // namespace

struct AttentionPlans::State {
    bool deterministic = false;
    std::int64_t keys_at_once = 0, queries_at_once = 0;
    CudnnHandle handle;
    std::map<AttentionCall, ExecutionPlan> forward_plans, backward_plans;
    std::map<ShapeKey, Prepared> shapes;

    const Prepared& prepared(const AttentionShape& s) const {
        const auto found = shapes.find(key_of(s));
        SLUICE_CHECK(found != shapes.end(), "prepared before it is used: " + text(s));
        return found->second;
    }

    // Of a stretch of a call whose log-sum-exps of one head lie `log_sum_exp_stride` from those of the next.
    const ExecutionPlan* forward_plan(const AttentionShape& s, Strides strides, std::int64_t log_sum_exp_stride) {
        const AttentionCall call{s.length.value, end_of(s),         s.heads, s.kv_heads,         s.head_dim,
                                 strides.query,  strides.key_value, 0,       log_sum_exp_stride, true,
                                 false};
        auto found = forward_plans.find(call);
        if (found == forward_plans.end())
            found = forward_plans.emplace(call, ExecutionPlan(handle, forward_graph(call))).first;
        return &found->second;
    }

    const ExecutionPlan* backward_plan(const AttentionShape& s, Strides strides, const KeyRange& keys, bool straight) {
        const std::int64_t gapless = s.heads * s.head_dim;
        const AttentionCall call{
            s.length.value, keys.count,    s.heads,           s.kv_heads,
            s.head_dim,     strides.query, strides.key_value, straight ? strides.query_gradient : gapless,
            s.length.value, keys.causal,   deterministic};
        auto found = backward_plans.find(call);
        if (found == backward_plans.end())
            found = backward_plans.emplace(call, ExecutionPlan(handle, backward_graph(call))).first;
        return &found->second;
    }

    Prepared plans_of(const AttentionShape& s, Strides strides) {
        Prepared made{strides, {}, {}, {}};
        for (const AttentionShape& stretch : stretches_of(s, queries_at_once))
            made.forward.push_back(
                {stretch.begin.value - s.begin.value, forward_plan(stretch, strides, s.length.value)});
        const std::vector<KeyRange> ranges = parts_of(s, keys_at_once);
        std::int64_t keys = 0, library = 0;
        for (const KeyRange& range : ranges) {
            made.backward.push_back({range, backward_plan(s, strides, range, ranges.size() == 1)});
            keys = std::max(keys, range.count);
            library = std::max(library, made.backward.back().plan->workspace_bytes());
        }
        made.layout = lay_out(s, std::ssize(ranges), keys, library, deterministic);
        return made;
    }
};

AttentionPlans::AttentionPlans(bool deterministic, Tokens keys_at_once, Tokens queries_at_once)
    : state_(std::make_unique<State>()) {
    SLUICE_CHECK(keys_at_once.value > 0 && keys_at_once.value % kTile == 0, "keys_at_once is a multiple of 128");
    SLUICE_CHECK(queries_at_once.value > 0 && queries_at_once.value % 4 == 0, "queries_at_once is a multiple of 4");
    state_->queries_at_once = queries_at_once.value;
    state_->deterministic = deterministic;
    state_->keys_at_once = keys_at_once.value;
}
AttentionPlans::~AttentionPlans() = default;

void AttentionPlans::prepare(const AttentionShape& s, Strides strides) {
    check_supported(s);
    if (strides.query_gradient == 0) strides.query_gradient = s.heads * s.head_dim;
    for (const std::int64_t stride : {strides.query, strides.key_value, strides.query_gradient})
        SLUICE_CHECK(stride > 0 && stride % 8 == 0, fmt::format("stride {} is a multiple of 8: {}", stride, text(s)));
    const auto found = state_->shapes.find(key_of(s));
    if (found != state_->shapes.end()) {
        SLUICE_CHECK(found->second.strides == strides, "a shape has one set of strides: " + text(s));
        return;
    }
    state_->shapes.emplace(key_of(s), state_->plans_of(s, strides));
}

std::vector<std::string> AttentionPlans::choices() const {
    std::vector<std::string> all;
    for (const auto* plans : {&state_->forward_plans, &state_->backward_plans})
        for (const auto& [call, plan] : *plans) all.push_back(plan.description());
    return all;
}

Bytes AttentionPlans::forward_workspace(const AttentionShape& s) const {
    std::int64_t most = 0;
    for (const Stretch& stretch : state_->prepared(s).forward) most = std::max(most, stretch.plan->workspace_bytes());
    return Bytes{most};
}
Bytes AttentionPlans::backward_workspace(const AttentionShape& s) const {
    return Bytes{state_->prepared(s).layout.bytes};
}

void AttentionPlans::forward(Stream stream, const AttentionShape& s, const AttentionOperands& in,
                             const AttentionSaved& saved, std::byte* workspace) {
    const Prepared& p = state_->prepared(s);
    check_operands(s, p.strides, in, {saved.out, saved.log_sum_exp});
    state_->handle.set_stream(stream);
    for (const Stretch& stretch : p.forward) {
        const TensorMemory memory[] = {{attention::kQuery, in.query.row(stretch.first)},
                                       {attention::kKey, in.key.data},
                                       {attention::kValue, in.value.data},
                                       {attention::kOut, saved.out.row(stretch.first)},
                                       {attention::kLogSumExp, saved.log_sum_exp + stretch.first}};
        stretch.plan->run(state_->handle, memory, workspace);
    }
}

namespace {

// One part of a backward call, dQ, dK and dV of which lie in bf16 afterwards.
struct PartCall {
    const AttentionOperands& in;
    const ConstAttentionSaved& saved;
    ConstBf16Matrix dout;
    const Bf16* query_gradient = nullptr;
    std::byte* workspace = nullptr;
    const BackwardLayout& layout;
};

void run_part(const CudnnHandle& handle, const Part& part, const PartCall& c, bool deterministic) {
    const TensorMemory memory[] = {{attention::kQuery, c.in.query.data},
                                   {attention::kKey, c.in.key.row(part.keys.first)},
                                   {attention::kValue, c.in.value.row(part.keys.first)},
                                   {attention::kOut, c.saved.out.data},
                                   {attention::kLogSumExp, c.saved.log_sum_exp},
                                   {attention::kOutGradient, c.dout.data},
                                   {attention::kQueryGradient, c.query_gradient},
                                   {attention::kKeyGradient, c.workspace + c.layout.key_gradient},
                                   {attention::kValueGradient, c.workspace + c.layout.value_gradient},
                                   {attention::kOutDot, c.workspace + c.layout.out_dot},
                                   {attention::kQueryAccumulator, c.workspace + c.layout.query_accumulator}};
    const std::span all(memory);
    part.plan->run(handle, deterministic ? all.first(all.size() - 1) : all, c.workspace + c.layout.of_cudnn);
}

template <class Element>
Element* at(std::byte* workspace, std::int64_t offset) {
    return reinterpret_cast<Element*>(workspace + offset);
}

// Adds a part's dK and dV to the accumulators; of the last part the rows in front of the own keys, if these are left.
void add_part(Stream stream, const Part& part, const BackwardLayout& layout, const AttentionShape& s,
              const AttentionGradients& out, std::byte* workspace) {
    const std::int64_t kv_width = s.kv_heads * s.head_dim, begin = part.keys.first;
    const std::int64_t count = part.keys.causal && !out.adds_own ? s.begin.value - begin : part.keys.count;
    accumulate(stream, ConstBf16Matrix(at<Bf16>(workspace, layout.key_gradient), count, kv_width),
               out.key.row_range(begin, count), out.begins);
    accumulate(stream, ConstBf16Matrix(at<Bf16>(workspace, layout.value_gradient), count, kv_width),
               out.value.row_range(begin, count), out.begins);
}

}  // namespace

void AttentionPlans::backward(Stream stream, const AttentionShape& s, const AttentionOperands& in,
                              const ConstAttentionSaved& saved, ConstBf16Matrix dout, const AttentionGradients& out,
                              std::byte* workspace) {
    const Prepared& p = state_->prepared(s);
    const std::int64_t width = s.heads * s.head_dim;
    check_operands(s, p.strides, in, saved);
    check_operand(dout, "dout", s.length.value, width, width);
    check_operand(out.query, "gradient of the query", s.length.value, width, p.strides.query_gradient);
    // Of two parts the first is kept in bf16; of more their sum in fp32. The last is added where dQ is rounded.
    const std::size_t parts = p.backward.size();
    const Bf16Matrix dq(at<Bf16>(workspace, p.layout.query_gradient), s.length.value, width);
    const Bf16Matrix first_dq(at<Bf16>(workspace, p.layout.query_gradient_sum), s.length.value, width);
    const Fp32Matrix dq_sum(at<float>(workspace, p.layout.query_gradient_sum), s.length.value, width);

    state_->handle.set_stream(stream);
    for (std::size_t i = 0; i < parts; ++i) {
        const Bf16Matrix& to = parts == 1 ? out.query : parts == 2 && i == 0 ? first_dq : dq;
        run_part(state_->handle, p.backward[i], {in, saved, dout, to.data, workspace, p.layout}, state_->deterministic);
        add_part(stream, p.backward[i], p.layout, s, out, workspace);
        if (parts > 2 && i + 1 < parts) accumulate(stream, dq, dq_sum, i == 0);
    }
    const RotaryShape rotary = out.turned_back.value_or(RotaryShape{s.head_dim, s.head_dim});
    const std::int64_t turned = out.turned_back ? width : 0;
    if (parts == 1 && out.turned_back)
        rotate(stream, rotary, s.begin, RotationSense::kBackward, out.query);
    else if (parts == 2)
        rotate_and_round(stream, rotary, s.begin, RotationSense::kBackward, turned, first_dq, dq, out.query);
    else if (parts > 2)
        rotate_and_round(stream, rotary, s.begin, RotationSense::kBackward, turned, dq_sum, dq, out.query);
}

OwnKeyGradients AttentionPlans::own_gradients(const AttentionShape& s, const std::byte* workspace) const {
    const Prepared& p = state_->prepared(s);
    const std::int64_t kv_width = s.kv_heads * s.head_dim, in_front = s.begin.value - p.backward.back().keys.first;
    const auto rows = [&](std::int64_t offset) {
        return ConstBf16Matrix(reinterpret_cast<const Bf16*>(workspace + offset), in_front + s.length.value, kv_width)
            .row_range(in_front, s.length.value);
    };
    return {rows(p.layout.key_gradient), rows(p.layout.value_gradient)};
}

}  // namespace sluice::cuda

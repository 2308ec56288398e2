#include "base/error.h"
#include "runtime/cuda/activation.h"
#include "runtime/cuda/map_rows.cuh"

namespace sluice::cuda {
namespace {

// The fast division and exponential are within a few units of fp32's last place, and outputs are rounded to bf16.
// exp(-x) infinite gives 0.
__device__ float sigmoid(float x) { return __fdividef(1.0F, 1.0F + __expf(-x)); }

// Each form: what stands beside x in y = x weight(x), and dy/dx, which needs the weight as well.
struct Tanh {
    static constexpr float kTwoRootTwoOverPi = 1.5957691216F;  // 2 sqrt(2 / pi)
    static constexpr float kCubic = 0.044715F;
    // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)): no cancellation for very negative x. fmaf, so that forward and backward
    // cannot be contracted in two ways
    static __device__ float weight(float x) {
        return sigmoid(x * fmaf(kTwoRootTwoOverPi * kCubic, x * x, kTwoRootTwoOverPi));
    }
    static __device__ float slope(float x, float s) {
        // s (1 - s) is 0 long before x^3 overflows, and 0 * infinity would be NaN: the slope is s itself out there
        const float bend = kTwoRootTwoOverPi * (1.0F + 3.0F * kCubic * x * x) * x * (s * (1.0F - s));
        return x * x < 1e4F ? s + bend : s;
    }
};

struct Erf {
    // Half the instructions of erfc, which alone would keep the memory waiting. What it loses below -4, where the
    // weight is under 1e-4, is 1e-7 of x.
    static __device__ float weight(float x) { return fmaf(0.5F, erff(x * 0.70710678F), 0.5F); }
    static __device__ float slope(float x, float s) { return s + x * 0.39894228F * __expf(-0.5F * x * x); }
};

struct SwigluForward {
    ConstBf16Matrix gate, up;
    Bf16Matrix y;
    template <int kWidth>
    struct Loaded {
        Vector<Bf16, kWidth> gate, up;
    };
    template <int kWidth>
    __device__ Loaded<kWidth> load(std::int64_t row, std::int64_t column) const {
        return {cuda::load<kWidth>(gate.row(row) + column), cuda::load<kWidth>(up.row(row) + column)};
    }
    template <int kWidth>
    __device__ void store(std::int64_t row, std::int64_t column, const Loaded<kWidth>& in) const {
        float out[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) out[i] = in.gate[i] * sigmoid(in.gate[i]) * in.up[i];
        cuda::store(y.row(row) + column, rounded<Bf16>(out));
    }
};

template <bool kAgain>
struct SwigluBackward {
    ConstBf16Matrix dy, gate, up;
    Bf16Matrix dgate, dup, y;
    template <int kWidth>
    struct Loaded {
        Vector<Bf16, kWidth> dy, gate, up;
    };
    template <int kWidth>
    __device__ Loaded<kWidth> load(std::int64_t row, std::int64_t column) const {
        return {cuda::load<kWidth>(dy.row(row) + column), cuda::load<kWidth>(gate.row(row) + column),
                cuda::load<kWidth>(up.row(row) + column)};
    }
    template <int kWidth>
    __device__ void store(std::int64_t row, std::int64_t column, const Loaded<kWidth>& in) const {
        float to_gate[kWidth], to_up[kWidth], again[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            const float g = in.gate[i], u = in.up[i], d = in.dy[i], s = sigmoid(g);
            to_gate[i] = d * u * s * (1.0F + g * (1.0F - s));
            to_up[i] = d * g * s;
            again[i] = g * s * u;
        }
        cuda::store(dgate.row(row) + column, rounded<Bf16>(to_gate));
        cuda::store(dup.row(row) + column, rounded<Bf16>(to_up));
        if constexpr (kAgain) cuda::store(y.row(row) + column, rounded<Bf16>(again));
    }
};

template <class Form>
struct GeluForward {
    ConstBf16Matrix x;
    Bf16Matrix y;
    template <int kWidth>
    __device__ Vector<Bf16, kWidth> load(std::int64_t row, std::int64_t column) const {
        return cuda::load<kWidth>(x.row(row) + column);
    }
    template <int kWidth>
    __device__ void store(std::int64_t row, std::int64_t column, const Vector<Bf16, kWidth>& in) const {
        float out[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) out[i] = in[i] * Form::weight(in[i]);
        cuda::store(y.row(row) + column, rounded<Bf16>(out));
    }
};

template <class Form, bool kAgain>
struct GeluBackward {
    ConstBf16Matrix dy, x;
    Bf16Matrix dx, y;
    template <int kWidth>
    struct Loaded {
        Vector<Bf16, kWidth> dy, x;
    };
    template <int kWidth>
    __device__ Loaded<kWidth> load(std::int64_t row, std::int64_t column) const {
        return {cuda::load<kWidth>(dy.row(row) + column), cuda::load<kWidth>(x.row(row) + column)};
    }
    template <int kWidth>
    __device__ void store(std::int64_t row, std::int64_t column, const Loaded<kWidth>& in) const {
        float to_x[kWidth], again[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            const float x_i = in.x[i], s = Form::weight(x_i);
            to_x[i] = in.dy[i] * Form::slope(x_i, s);
            again[i] = x_i * s;
        }
        cuda::store(dx.row(row) + column, rounded<Bf16>(to_x));
        if constexpr (kAgain) cuda::store(y.row(row) + column, rounded<Bf16>(again));
    }
};

template <class... Views>
bool all_whole(const Views&... views) {
    return (in_whole_vectors<8>(views) && ...);
}

template <class Form>
void gelu_backward_as(Stream stream, ConstBf16Matrix dy, ConstBf16Matrix x, Bf16Matrix dx, Bf16Matrix y) {
    const bool whole = all_whole(dy, x, dx);
    if (y.data == nullptr)
        map_rows<8, 2>(stream, "gelu_backward", GeluBackward<Form, false>{dy, x, dx, y}, x.rows, x.columns, whole);
    else
        map_rows<8, 2>(stream, "gelu_backward", GeluBackward<Form, true>{dy, x, dx, y}, x.rows, x.columns,
                       whole && all_whole(y));
}

}  // namespace

void swiglu_forward(Stream stream, ConstBf16Matrix gate, ConstBf16Matrix up, Bf16Matrix y) {
    SLUICE_CHECK(same_shape(gate, up) && same_shape(gate, y), "the shapes of a SwiGLU agree");
    map_rows<8, 2>(stream, "swiglu_forward", SwigluForward{gate, up, y}, y.rows, y.columns, all_whole(gate, up, y));
}

void swiglu_backward(Stream stream, ConstBf16Matrix dy, ConstBf16Matrix gate, ConstBf16Matrix up, Bf16Matrix dgate,
                     Bf16Matrix dup, Bf16Matrix y) {
    SLUICE_CHECK(same_shape(gate, up) && same_shape(gate, dy) && same_shape(gate, dgate) && same_shape(gate, dup) &&
                     (y.data == nullptr || same_shape(gate, y)),
                 "the shapes of a SwiGLU's backward agree");
    const bool whole = all_whole(dy, gate, up, dgate, dup);
    if (y.data == nullptr)
        map_rows<8, 2>(stream, "swiglu_backward", SwigluBackward<false>{dy, gate, up, dgate, dup, y}, gate.rows,
                       gate.columns, whole);
    else
        map_rows<8, 2>(stream, "swiglu_backward", SwigluBackward<true>{dy, gate, up, dgate, dup, y}, gate.rows,
                       gate.columns, whole && all_whole(y));
}

void gelu_forward(Stream stream, GeluForm form, ConstBf16Matrix x, Bf16Matrix y) {
    SLUICE_CHECK(same_shape(x, y), "the shapes of a GELU agree");
    if (form == GeluForm::kTanh)
        map_rows<8, 4>(stream, "gelu_forward", GeluForward<Tanh>{x, y}, x.rows, x.columns, all_whole(x, y));
    else
        map_rows<8, 4>(stream, "gelu_forward", GeluForward<Erf>{x, y}, x.rows, x.columns, all_whole(x, y));
}

void gelu_backward(Stream stream, GeluForm form, ConstBf16Matrix dy, ConstBf16Matrix x, Bf16Matrix dx, Bf16Matrix y) {
    SLUICE_CHECK(same_shape(x, dy) && same_shape(x, dx) && (y.data == nullptr || same_shape(x, y)),
                 "the shapes of a GELU's backward agree");
    if (form == GeluForm::kTanh)
        gelu_backward_as<Tanh>(stream, dy, x, dx, y);
    else
        gelu_backward_as<Erf>(stream, dy, x, dx, y);
}

}  // namespace sluice::cuda

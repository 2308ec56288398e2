// SwiGLU and GELU.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "runtime/cpu/gelu.h"
#include "runtime/cpu/swiglu.h"
#include "tests/runtime/finite_differences.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice {
namespace {

using Doubles = std::vector<double>;

double gelu(GeluForm form, double x) {
    if (form == GeluForm::kErf) return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

Doubles swiglu(const Doubles& gate, const Doubles& up) {
    Doubles y;
    for (std::size_t i = 0; i < gate.size(); ++i) y.push_back(gate[i] / (1 + std::exp(-gate[i])) * up[i]);
    return y;
}

struct Case {
    std::int64_t rows, columns;
};
constexpr Case kCases[] = {{1, 1}, {7, 5}, {3, 129}};

TEST(Swiglu, ForwardAndGradientsAgreeWithDouble) {
    for (const Case& s : kCases) {
        // gate and up side by side, as one GEMM leaves them
        const PaddedTensor both = PaddedTensor::random(s.rows, 2 * s.columns, 1, 6);
        const ConstMatrixView gate = both.view().column_range(0, s.columns);
        const ConstMatrixView up = both.view().column_range(s.columns, s.columns);
        const PaddedTensor dy = PaddedTensor::random(s.rows, s.columns, 2);
        PaddedTensor y(s.rows, s.columns), dgate(s.rows, s.columns), dup(s.rows, s.columns);
        swiglu_forward(gate, up, y.view());
        swiglu_backward({dy.view(), gate, up}, dgate.view(), dup.view());
        Doubles g, u;
        for (std::int64_t t = 0; t < s.rows; ++t)
            for (std::int64_t c = 0; c < s.columns; ++c)
                g.push_back(static_cast<double>(gate.row(t)[c])), u.push_back(static_cast<double>(up.row(t)[c]));
        EXPECT_LT(relative_error(y.doubles(), swiglu(g, u)), 5e-7);
        const Doubles d = dy.doubles();
        expect_gradient(
            "dgate", [&](const Doubles& v) { return dot(d, swiglu(v, u)); }, g, dgate.doubles(), 2e-6);
        expect_gradient(
            "dup", [&](const Doubles& v) { return dot(d, swiglu(g, v)); }, u, dup.doubles(), 2e-6);
        EXPECT_TRUE(y.gaps_intact() && dgate.gaps_intact() && dup.gaps_intact());

        PaddedTensor in_place = both;
        const MatrixView left = in_place.view().column_range(0, s.columns);
        const MatrixView right = in_place.view().column_range(s.columns, s.columns);
        swiglu_backward({dy.view(), left, right}, left, right);
        for (std::int64_t t = 0; t < s.rows; ++t)
            for (std::int64_t c = 0; c < s.columns; ++c) {
                EXPECT_EQ(left.row(t)[c], dgate.view().row(t)[c]);
                EXPECT_EQ(right.row(t)[c], dup.view().row(t)[c]);
            }
    }
}

class Gelu : public testing::TestWithParam<GeluForm> {};
INSTANTIATE_TEST_SUITE_P(, Gelu, testing::Values(GeluForm::kTanh, GeluForm::kErf),
                         [](const auto& p) { return std::string(p.param == GeluForm::kTanh ? "Tanh" : "Erf"); });

TEST_P(Gelu, ForwardAndGradientAgreeWithDouble) {
    for (const Case& s : kCases) {
        const PaddedTensor x = PaddedTensor::random(s.rows, s.columns, 1, 5);
        const PaddedTensor dy = PaddedTensor::random(s.rows, s.columns, 2);
        PaddedTensor y(s.rows, s.columns), dx(s.rows, s.columns), in_place = x;
        gelu_forward(GetParam(), x.view(), y.view());
        gelu_backward(GetParam(), dy.view(), x.view(), dx.view());
        const auto all = [&](const Doubles& v) {
            Doubles out;
            for (const double value : v) out.push_back(gelu(GetParam(), value));
            return out;
        };
        EXPECT_LT(relative_error(y.doubles(), all(x.doubles())), 5e-7);
        expect_gradient(
            "dx", [&](const Doubles& v) { return dot(dy.doubles(), all(v)); }, x.doubles(), dx.doubles(), 2e-6);
        EXPECT_TRUE(y.gaps_intact() && dx.gaps_intact());
        gelu_backward(GetParam(), dy.view(), in_place.view(), in_place.view());
        EXPECT_EQ(in_place.bits(), dx.bits());
    }
}

TEST_P(Gelu, TailsKeepTheirRelativePrecision) {
    // 1 + tanh(u) or 1 + erf(u) in fp32 would be 0 or a multiple of 6e-8 here. The exponent (about -14 at -5) carries
    // its own rounding into the result: 14 x 2^-24 and some.
    for (const float x : {-5.0F, -4.0F, -3.0F, -1e-20F, 1e-20F}) {
        const MatrixView cell(const_cast<float*>(&x), 1, 1);
        float y = kPoison;
        gelu_forward(GetParam(), cell, MatrixView(&y, 1, 1));
        double want = gelu(GetParam(), static_cast<double>(x));
        if (GetParam() == GeluForm::kErf)
            want = 0.5 * static_cast<double>(x) * std::erfc(-static_cast<double>(x) / std::numbers::sqrt2);
        EXPECT_NEAR(static_cast<double>(y) / want, 1, 5e-6) << static_cast<double>(x);
    }
}

TEST(Activations, FarOutTheyAreTheIdentityOrZero) {
    for (const float size : {100.0F, 1e15F, 1e38F})
        for (const float sign : {1.0F, -1.0F}) {
            float x = sign * size, one = 1, y = kPoison, slope = kPoison, other = kPoison;
            const auto cell = [](float& v) { return MatrixView(&v, 1, 1); };
            for (const GeluForm form : {GeluForm::kTanh, GeluForm::kErf}) {
                gelu_forward(form, cell(x), cell(y));
                gelu_backward(form, cell(one), cell(x), cell(slope));
                EXPECT_EQ(y, sign > 0 ? x : 0.0F);
                EXPECT_EQ(slope, sign > 0 ? 1.0F : 0.0F);
            }
            swiglu_forward(cell(x), cell(one), cell(y));
            swiglu_backward({cell(one), cell(x), cell(one)}, cell(slope), cell(other));
            EXPECT_EQ(y, sign > 0 ? x : 0.0F);
            EXPECT_EQ(slope, sign > 0 ? 1.0F : 0.0F);
        }
}

}  // namespace
}  // namespace sluice

// RMSNorm and LayerNorm.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/cpu/layer_norm.h"
#include "runtime/cpu/rms_norm.h"
#include "tests/runtime/finite_differences.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice {
namespace {

using Doubles = std::vector<double>;
constexpr double kEpsilon = 1e-5;

struct Case {
    std::int64_t rows, columns;
};
constexpr Case kCases[] = {{1, 2}, {1, 17}, {7, 64}, {129, 40}, {131, 97}};

std::size_t product(const Case& s) { return static_cast<std::size_t>(s.rows * s.columns); }

// y = weight * (x - m) r + bias, by rows; without `centred` m is 0.
Doubles reference(const Case& s, const Doubles& x, const Doubles& weight, const Doubles& bias, bool centred) {
    Doubles y(x.size());
    const auto n = static_cast<std::size_t>(s.columns);
    for (std::size_t t = 0; t < static_cast<std::size_t>(s.rows); ++t) {
        double mean = 0, squares = 0;
        for (std::size_t c = 0; c < n; ++c) mean += centred ? x[t * n + c] / static_cast<double>(n) : 0;
        for (std::size_t c = 0; c < n; ++c) squares += std::pow(x[t * n + c] - mean, 2) / static_cast<double>(n);
        for (std::size_t c = 0; c < n; ++c)
            y[t * n + c] = weight[c] * (x[t * n + c] - mean) / std::sqrt(squares + kEpsilon) + bias[c];
    }
    return y;
}

// One norm with everything it needs; RMSNorm leaves mean and bias alone.
struct NormCase {
    bool centred;
    Case shape;
    PaddedTensor x, dy, passed;
    std::vector<float> weight, bias, mean, reciprocal;
    std::vector<float> dweight, dbias;  // accumulators, not zero at first

    NormCase(bool with_mean, const Case& s, float middle = 0.3F)
        : centred(with_mean),
          shape(s),
          x(PaddedTensor::random(s.rows, s.columns, 1, 2, middle)),
          dy(PaddedTensor::random(s.rows, s.columns, 2)),
          passed(PaddedTensor::random(s.rows, s.columns, 3)),
          weight(random_floats(static_cast<std::size_t>(s.columns), 4, 0.5F, 1)),
          bias(random_floats(static_cast<std::size_t>(s.columns), 5)),
          mean(poisoned(static_cast<std::size_t>(s.rows))),
          reciprocal(mean),
          dweight(random_floats(static_cast<std::size_t>(s.columns), 6)),
          dbias(random_floats(static_cast<std::size_t>(s.columns), 7)) {
        if (!centred) bias.assign(bias.size(), 0);
    }

    void forward(MatrixView y) {
        if (centred)
            layer_norm_forward(x.view(), {weight, bias, static_cast<float>(kEpsilon)}, y, {mean, reciprocal});
        else
            rms_norm_forward(x.view(), weight, static_cast<float>(kEpsilon), y, reciprocal);
    }
    void backward(ConstMatrixView around, ConstMatrixView d, MatrixView dx) {
        if (centred)
            layer_norm_backward({d, x.view(), weight, mean, reciprocal, around}, dx, dweight, dbias);
        else
            rms_norm_backward({d, x.view(), weight, reciprocal, around}, dx, dweight);
    }
    PaddedTensor output() {
        PaddedTensor y(shape.rows, shape.columns);
        forward(y.view());
        return y;
    }
};

class Norms : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, Norms, testing::Bool(),
                         [](const auto& p) { return std::string(p.param ? "LayerNorm" : "RmsNorm"); });

TEST_P(Norms, ForwardAgreesWithDouble) {
    for (const Case& s : kCases) {
        NormCase n(GetParam(), s);
        const PaddedTensor y = n.output();
        const Doubles want = reference(s, n.x.doubles(), doubles(n.weight), doubles(n.bias), n.centred);
        EXPECT_LT(relative_error(y.doubles(), want), 1e-6) << s.rows << " x " << s.columns;
        EXPECT_TRUE(y.gaps_intact());
    }
}

TEST_P(Norms, GradientsAgreeWithFiniteDifferences) {
    for (const Case& s : kCases) {
        NormCase n(GetParam(), s);
        n.output();
        const Doubles dweight = doubles(n.dweight), dbias = doubles(n.dbias);
        PaddedTensor dx(s.rows, s.columns);
        n.backward({}, n.dy.view(), dx.view());
        EXPECT_TRUE(dx.gaps_intact());
        const Doubles x = n.x.doubles(), w = doubles(n.weight), b = doubles(n.bias), g = n.dy.doubles();
        const auto loss = [&](const Doubles& x1, const Doubles& w1, const Doubles& b1) {
            return dot(g, reference(s, x1, w1, b1, n.centred));
        };
        expect_gradient(
            "dx", [&](const Doubles& v) { return loss(v, w, b); }, x, dx.doubles(), 2e-6);
        expect_gradient(
            "dweight", [&](const Doubles& v) { return loss(x, v, b); }, w, difference(doubles(n.dweight), dweight),
            2e-6);
        if (n.centred)
            expect_gradient(
                "dbias", [&](const Doubles& v) { return loss(x, w, v); }, b, difference(doubles(n.dbias), dbias), 2e-6);
    }
}

TEST_P(Norms, GradientAroundTheNormIsAddedAlsoInPlace) {
    NormCase n(GetParam(), {7, 40});
    n.output();
    PaddedTensor alone(7, 40), both(7, 40), in_place = n.passed, over_dy = n.dy;
    n.backward({}, n.dy.view(), alone.view());
    n.backward(n.passed.view(), n.dy.view(), both.view());
    n.backward(in_place.view(), n.dy.view(), in_place.view());
    n.backward(n.passed.view(), over_dy.view(), over_dy.view());
    EXPECT_EQ(both.bits(), in_place.bits());
    EXPECT_EQ(both.bits(), over_dy.bits());
    for (std::size_t i = 0; i < product(n.shape); ++i)
        EXPECT_EQ(static_cast<float>(both.doubles()[i]),
                  static_cast<float>(alone.doubles()[i]) + static_cast<float>(n.passed.doubles()[i]));
}

TEST_P(Norms, MadeAgainInPlaceOrOverOtherContentsGivesTheSameBits) {
    NormCase n(GetParam(), {13, 97});
    const PaddedTensor y = n.output();
    const auto statistics = bits(n.reciprocal), means = bits(n.mean);
    n.reciprocal.assign(n.reciprocal.size(), 1);
    n.mean.assign(n.mean.size(), 1);
    PaddedTensor again = PaddedTensor::filled(13, 97, 1);
    n.forward(again.view());
    EXPECT_EQ(y.bits(), again.bits());
    EXPECT_EQ(statistics, bits(n.reciprocal));
    if (n.centred) {
        EXPECT_EQ(means, bits(n.mean));
    }
    n.forward(n.x.view());
    EXPECT_EQ(y.bits(), n.x.bits());
}

TEST(LayerNorm, VarianceDoesNotCancelUnderALargeMean) {
    NormCase n(true, {3, 64}, 4096);
    const Doubles want = reference(n.shape, n.x.doubles(), doubles(n.weight), doubles(n.bias), true);
    // the mean itself is rounded to 2^-12 of a deviation of about 1
    EXPECT_LT(relative_error(n.output().doubles(), want), 5e-4);
}

}  // namespace
}  // namespace sluice

// AdamW, gradient norm and clipping, learning rate, and the search for what is not finite.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/cpu/adamw.h"
#include "runtime/cpu/first_non_finite.h"
#include "runtime/cpu/gradient_norm.h"
#include "runtime/cpu/learning_rate.h"
#include "tests/runtime/finite_differences.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice {
namespace {

using Doubles = std::vector<double>;

// The formula of the paper (algorithm 2), in double, from the same gradients.
void reference_step(const AdamwStep& s, const Doubles& gradients, Doubles& w, Doubles& m, Doubles& v) {
    const double b1 = static_cast<double>(s.beta1), b2 = static_cast<double>(s.beta2),
                 rate = static_cast<double>(s.learning_rate);
    for (std::size_t i = 0; i < w.size(); ++i) {
        const double g = gradients[i] * static_cast<double>(s.gradient_scale);
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        const double step = static_cast<double>(s.step);
        const double m_hat = m[i] / (1 - std::pow(b1, step)), v_hat = v[i] / (1 - std::pow(b2, step));
        w[i] -= rate * (m_hat / (std::sqrt(v_hat) + static_cast<double>(s.epsilon)) +
                        static_cast<double>(s.weight_decay) * w[i]);
    }
}

TEST(Adamw, TwentyStepsAgreeWithDouble) {
    for (const std::size_t count : {1U, 7U, 129U}) {
        std::vector<float> w = random_floats(count, 1), m(count, 0), v(count, 0);
        Doubles rw = doubles(w), rm(count, 0), rv(count, 0);
        AdamwStep s;
        s.learning_rate = 1e-2F;
        for (s.step = 1; s.step <= 20; ++s.step) {
            s.gradient_scale = s.step % 3 == 0 ? 0.25F : 1.0F;
            const std::vector<float> g = random_floats(count, static_cast<std::uint32_t>(100 + s.step));
            adamw(s, g, {w, m, v});
            reference_step(s, doubles(g), rw, rm, rv);
        }
        EXPECT_LT(relative_error(doubles(w), rw), 2e-6);
        EXPECT_LT(relative_error(doubles(m), rm), 2e-6);
        EXPECT_LT(relative_error(doubles(v), rv), 2e-6);
    }
}

TEST(Adamw, FirstStepIsTheLearningRateByTheSignOfTheGradient) {
    std::vector<float> w{1, 1, 1}, m{0, 0, 0}, v{0, 0, 0};
    AdamwStep s;
    s.learning_rate = 0.125F;
    s.weight_decay = 0.5F;
    adamw(s, std::vector<float>{3, -1e-3F, 0}, {w, m, v});
    EXPECT_NEAR(static_cast<double>(w[0]), 1 - 0.0625 - 0.125, 1e-5);
    EXPECT_NEAR(static_cast<double>(w[1]), 1 - 0.0625 + 0.125, 1e-5);
    EXPECT_NEAR(static_cast<double>(w[2]), 1 - 0.0625, 1e-6);  // decay alone: decoupled from the gradient
}

TEST(Adamw, AnyCutOfTheParametersGivesTheSameBits) {
    const std::vector<float> g = random_floats(131, 1);
    std::vector<float> w = random_floats(131, 2), m = random_floats(131, 3), v(131, 0.5F), w2 = w, m2 = m, v2 = v;
    AdamwStep s;
    s.learning_rate = 1e-3F;
    s.step = 7;
    adamw(s, g, {w, m, v});
    for (std::size_t begin = 0; begin < 131; begin += 13) {
        const std::size_t count = std::min<std::size_t>(13, 131 - begin);
        const auto part = [&](std::vector<float>& all) { return std::span(all).subspan(begin, count); };
        adamw(s, std::span(g).subspan(begin, count), {part(w2), part(m2), part(v2)});
    }
    EXPECT_EQ(bits(w), bits(w2));
    EXPECT_EQ(bits(m), bits(m2));
    EXPECT_EQ(bits(v), bits(v2));
}

TEST(GradientNorm, SumOfSquaresIsExactToDouble) {
    for (const std::size_t count : {0U, 1U, 16U, 129U, 100003U}) {
        const std::vector<float> g = random_floats(count, 1, 1e-3F);
        long double want = 0;
        for (const float x : g) want += static_cast<long double>(x) * static_cast<long double>(x);
        EXPECT_NEAR(sum_of_squares(g), static_cast<double>(want), 1e-13 * static_cast<double>(want));
    }
    // squares beyond the range of float
    EXPECT_DOUBLE_EQ(sum_of_squares(std::vector<float>(3, 1e30F)) / std::pow(static_cast<double>(1e30F), 2), 3);
    EXPECT_TRUE(std::isnan(sum_of_squares(std::vector<float>{1, kPoison})));
}

TEST(GradientNorm, ClippingNeverScalesUp) {
    EXPECT_EQ(clipping_scale(0.5, 1), 1.0F);
    EXPECT_EQ(clipping_scale(0, 1), 1.0F);
    EXPECT_NEAR(static_cast<double>(clipping_scale(4, 1)), 0.25, 1e-6);
    EXPECT_TRUE(std::isnan(clipping_scale(std::nan(""), 1)));
    EXPECT_EQ(clipping_scale(INFINITY, 1), 0.0F);
}

TEST(LearningRate, WarmsUpThenFallsByACosine) {
    const LearningRateSchedule s{1.0F, 0.1F, 4, 12};
    constexpr double kWant[] = {0.25, 0.5, 0.75, 1.0, 0.96574, 0.86820, 0.72221, 0.55, 0.37779, 0.23180, 0.13426, 0.1};
    for (std::int64_t step = 1; step <= 12; ++step)
        EXPECT_NEAR(static_cast<double>(learning_rate(s, step)), kWant[step - 1], 1e-5) << step;
    EXPECT_EQ(learning_rate(s, 1000), 0.1F);
    EXPECT_EQ(learning_rate({1.0F, 0.0F, 0, 2}, 1), 0.5F);  // no warm-up: step 1 is on the cosine
    EXPECT_EQ(learning_rate({1.0F, 0.0F, 3, 3}, 3), 1.0F);
}

TEST(FirstNonFinite, FindsTheFirstAndNothingElse) {
    std::vector<float> values(3000, std::numeric_limits<float>::max());
    values[5] = std::numeric_limits<float>::denorm_min();
    EXPECT_EQ(first_non_finite(values), std::nullopt);
    EXPECT_EQ(first_non_finite({}), std::nullopt);
    for (const std::size_t at : {2999U, 2048U, 1023U, 0U}) {  // each before the one already there
        values[at] = at % 2 == 0 ? -std::numeric_limits<float>::infinity() : kPoison;
        EXPECT_EQ(first_non_finite(values), static_cast<std::int64_t>(at));
    }
}

}  // namespace
}  // namespace sluice

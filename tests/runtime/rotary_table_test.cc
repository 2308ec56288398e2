#include "runtime/cpu/rotary_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "base/error.h"
#include "tests/runtime/finite_differences.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice {
namespace {

using Doubles = std::vector<double>;

std::vector<float> table_of(const RotaryShape& shape, std::int64_t begin, std::int64_t length) {
    const Bytes bytes = rotary_table_bytes(shape, Tokens{length});
    std::vector<float> table = poisoned(static_cast<std::size_t>(bytes.value) / sizeof(float));
    fill_rotary_table(shape, Tokens{begin}, Tokens{length}, table);
    return table;
}

// As complex numbers: pair (x[j], x[j + half]) times exp(i position theta^(-2j/rotary)).
Doubles reference(const RotaryShape& s, std::int64_t begin, std::int64_t tokens, std::int64_t heads, const Doubles& x) {
    Doubles y = x;
    const std::int64_t half = s.rotary_dim / 2;
    for (std::int64_t t = 0; t < tokens; ++t)
        for (std::int64_t h = 0; h < heads; ++h)
            for (std::int64_t j = 0; j < half; ++j) {
                const auto a = static_cast<std::size_t>((t * heads + h) * s.head_dim + j),
                           b = a + static_cast<std::size_t>(half);
                const double exponent = static_cast<double>(2 * j) / static_cast<double>(s.rotary_dim);
                const double angle = static_cast<double>(begin + t) / std::pow(s.theta, exponent);
                const std::complex<double> turned = std::complex<double>(x[a], x[b]) * std::polar(1.0, angle);
                y[a] = turned.real();
                y[b] = turned.imag();
            }
    return y;
}

struct Case {
    RotaryShape shape;
    std::int64_t begin, tokens, heads;
};
const Case kCases[] = {
    {{2, 2, 10000}, 0, 1, 1},   {{4, 4, 10000}, 7, 7, 2},           {{64, 64, 500000}, 129, 13, 3},
    {{16, 4, 10000}, 5, 11, 2}, {{128, 128, 10000}, 4194300, 4, 1}, {{8, 0, 10000}, 3, 2, 2},
};

TEST(RotaryTable, AgreesWithComplexRotationAtEveryOffset) {
    for (const Case& c : kCases) {
        const auto table = table_of(c.shape, c.begin, c.tokens);
        PaddedTensor x = PaddedTensor::random(c.tokens, c.heads * c.shape.head_dim, 1);
        const Doubles want = reference(c.shape, c.begin, c.tokens, c.heads, x.doubles());
        rotate(c.shape, table, RotationSense::kForward, x.view());
        EXPECT_LT(relative_error(x.doubles(), want), 5e-7) << c.shape.head_dim << " from " << c.begin;
        EXPECT_TRUE(x.gaps_intact());
    }
}

TEST(RotaryTable, GradientAgreesWithFiniteDifferences) {
    for (const Case& c : kCases) {
        const auto table = table_of(c.shape, c.begin, c.tokens);
        const PaddedTensor x = PaddedTensor::random(c.tokens, c.heads * c.shape.head_dim, 1);
        PaddedTensor g = PaddedTensor::random(c.tokens, c.heads * c.shape.head_dim, 2);
        const Doubles dy = g.doubles();
        rotate(c.shape, table, RotationSense::kBackward, g.view());
        const auto loss = [&](const Doubles& v) { return dot(dy, reference(c.shape, c.begin, c.tokens, c.heads, v)); };
        expect_gradient("dx", loss, x.doubles(), g.doubles(), 1e-6);
    }
}

TEST(RotaryTable, SubsequencesAreSlicesOfTheWhole) {
    const RotaryShape shape{16, 16, 10000};
    const auto whole = table_of(shape, 0, 129), part = table_of(shape, 67, 62);
    EXPECT_EQ(bits(part), bits({whole.begin() + 67 * 16, whole.end()}));
    // a slice that restarted at 0 would differ
    EXPECT_NE(bits(part), bits({whole.begin(), whole.begin() + 62 * 16}));
}

TEST(RotaryTable, OddRotaryWidthIsRefused) {
    PaddedTensor x(1, 4);
    const std::vector<float> table(3);
    EXPECT_THROW(rotate({4, 3, 10000}, table, RotationSense::kForward, x.view()), InternalError);
}

}  // namespace
}  // namespace sluice

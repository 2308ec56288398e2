// Gradients against central finite differences of a reference in double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>
#include <vector>

namespace sluice {

// Slope of loss at `at` along `direction`. The error of the difference is about 1e-9 of the loss' third derivative.
template <class Loss>
double central_difference(Loss& loss, const std::vector<double>& at, const std::vector<double>& direction) {
    constexpr double kStep = 1e-5;
    std::vector<double> plus = at, minus = at;
    for (std::size_t i = 0; i < at.size(); ++i) {
        plus[i] += kStep * direction[i];
        minus[i] -= kStep * direction[i];
    }
    return (loss(plus) - loss(minus)) / (2 * kStep);
}

// Checks `gradient` of `loss` at `at`: every entry where there are few, else a dozen entries and ten directions of
// random signs, which see an error in any entry. Passes while the errors stay below `tolerance` times the norm of the
// gradient (a direction) or its largest entry (an entry).
template <class Loss>
void expect_gradient(std::string_view what, Loss loss, const std::vector<double>& at,
                     const std::vector<double>& gradient, double tolerance) {
    ASSERT_EQ(at.size(), gradient.size()) << what;
    double largest = 0, squares = 0;
    for (const double g : gradient) largest = std::max(largest, std::abs(g)), squares += g * g;
    ASSERT_TRUE(std::isfinite(squares)) << what;
    const auto check = [&](const std::vector<double>& direction, double size) {
        double got = 0;
        for (std::size_t i = 0; i < at.size(); ++i) got += gradient[i] * direction[i];
        EXPECT_NEAR(got, central_difference(loss, at, direction), tolerance * size + 1e-7) << what;
    };
    const std::size_t step = at.size() <= 64 ? 1 : at.size() / 6;
    for (std::size_t i = 0; i < at.size(); i += step) {
        std::vector<double> direction(at.size(), 0.0);
        direction[i] = 1;
        check(direction, largest);
    }
    std::mt19937 random(7);
    for (int i = 0; i < 4; ++i) {
        std::vector<double> direction(at.size());
        for (double& d : direction) d = random() % 2 == 0 ? 1 : -1;
        check(direction, 3 * std::sqrt(squares));
    }
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

inline std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> d(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
    return d;
}

// Largest |got - want| / (largest |want|): the norm-wise error that bounds are stated for.
inline double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
    double error = 0, size = 1e-30;
    for (std::size_t i = 0; i < want.size(); ++i) {
        const double e = std::abs(got[i] - want[i]);
        error = std::isnan(e) ? INFINITY : std::max(error, e);
        size = std::max(size, std::abs(want[i]));
    }
    return got.size() == want.size() ? error / size : INFINITY;
}

}  // namespace sluice

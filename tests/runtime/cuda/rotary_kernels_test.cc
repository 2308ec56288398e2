// Rotary positions on the device against the CPU's table.
#include "runtime/cpu/rotary_table.h"
#include "runtime/cuda/rotary.h"
#include "tests/runtime/cuda/device_matrix.h"

namespace sluice::cuda {
namespace {

constexpr double kNoise = 1e-6;  // angles after reduction are within 2e-7

struct Case {
    std::int64_t rows, heads, head_dim, rotary_dim;
    double theta;
};
constexpr Case kCases[] = {{1, 1, 2, 2, 1e4},       {5, 3, 10, 6, 1e4},    {7, 2, 128, 128, 5e5},
                           {37, 24, 128, 128, 5e5}, {9, 8, 64, 16, 1e4},   {3, 4, 96, 24, 1e4},
                           {2, 2, 512, 512, 1e4},   {130, 1, 64, 64, 1e4}, {2, 96, 128, 128, 1e4}};

class RotaryKernels : public LibraryOnDevice {};

PaddedTensor copy(ConstMatrixView from) {
    PaddedTensor all(from.rows, from.columns);
    for (std::int64_t r = 0; r < from.rows; ++r)
        for (std::int64_t c = 0; c < from.columns; ++c) all.view().row(r)[c] = from.row(r)[c];
    return all;
}

void turn(const Case& c, Tokens begin, RotationSense sense, MatrixView x) {
    const RotaryShape shape{c.head_dim, c.rotary_dim, c.theta};
    std::vector<float> table(static_cast<std::size_t>(c.rows * c.rotary_dim));
    fill_rotary_table(shape, begin, Tokens{c.rows}, table);
    sluice::rotate(shape, table, sense, x);
}

TEST_F(RotaryKernels, InPlaceAgreesWithTheCpu) {
    for (const Case& c : kCases)
        for (const Layout& layout : kLayouts)
            for (const std::int64_t begin : {0, 4095, 1000003})
                for (const RotationSense sense : {RotationSense::kForward, RotationSense::kBackward}) {
                    const auto x = random_bf16(c.rows, c.heads * c.head_dim, 1, layout);
                    PaddedTensor want = copy(x.values());
                    turn(c, Tokens{begin}, sense, want.view());
                    rotate(nullptr, {c.head_dim, c.rotary_dim, c.theta}, Tokens{begin}, sense, x.view());
                    expect_rounded(x.download(), want, kNoise, "rotated");
                }
}

// x + added; without an x, `added`.
PaddedTensor sum_of(ConstMatrixView x, ConstMatrixView added) {
    PaddedTensor sum = copy(added);
    if (x.data != nullptr)
        for (std::int64_t r = 0; r < sum.rows(); ++r)
            for (std::int64_t c = 0; c < sum.columns(); ++c) sum.view().row(r)[c] += x.row(r)[c];
    return sum;
}

// The first of the heads are turned, the others are not.
template <class X>
void expect_sum_rotated_and_rounded(const Case& c, const Layout& layout, X x, ConstMatrixView x_values) {
    for (const std::int64_t turned : {std::int64_t{0}, c.heads / 2, c.heads}) {
        const auto added = random_bf16(c.rows, c.heads * c.head_dim, 2, layout);
        const Bf16OnDevice out(c.rows, c.heads * c.head_dim, layout);
        PaddedTensor want = sum_of(x_values, added.values());
        turn(c, Tokens{77}, RotationSense::kBackward, want.view().column_range(0, turned * c.head_dim));
        rotate_and_round(nullptr, {c.head_dim, c.rotary_dim, c.theta}, Tokens{77}, RotationSense::kBackward,
                         turned * c.head_dim, x, added.view(), out.view());
        expect_rounded(out.download(), want, 2 * kNoise, "rotated and rounded");  // sums are up to twice as large
    }
}

TEST_F(RotaryKernels, RoundedAgreesWithTheCpu) {
    for (const Case& c : kCases)
        for (const Layout& layout : kLayouts) {
            const Fp32OnDevice sums(PaddedTensor::random(c.rows, c.heads * c.head_dim, 1), layout);
            const auto part = random_bf16(c.rows, c.heads * c.head_dim, 1, layout);
            expect_sum_rotated_and_rounded(c, layout, ConstFp32Matrix(sums.view()), sums.values());
            expect_sum_rotated_and_rounded(c, layout, ConstBf16Matrix(part.view()), part.values());
            expect_sum_rotated_and_rounded(c, layout, ConstFp32Matrix{}, {});
        }
}

TEST_F(RotaryKernels, WithoutAnyRotationItRounds) {
    const Fp32OnDevice x(PaddedTensor::random(5, 24, 1), kGapless);
    const auto added = random_bf16(5, 24, 2, kGapless);
    const Bf16OnDevice out(5, 24, kGapless);
    rotate_and_round(nullptr, {8, 0, 1e4}, Tokens{3}, RotationSense::kForward, 24, ConstFp32Matrix(x.view()),
                     added.view(), out.view());
    expect_same(out.download(), rounded_tensor(sum_of(x.values(), added.values())), "rounded");
}

}  // namespace
}  // namespace sluice::cuda

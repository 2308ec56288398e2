// RMSNorm and LayerNorm on the device against the CPU's.
#include <optional>

#include "runtime/cpu/layer_norm.h"
#include "runtime/cpu/rms_norm.h"
#include "runtime/cuda/norm.h"
#include "tests/runtime/cuda/device_matrix.h"

namespace sluice::cuda {
namespace {

constexpr float kEpsilon = 1e-5F;
constexpr double kNoise = 1e-5;  // values are of about 1, sums of thousands of them

struct Shape {
    std::int64_t rows, columns;
};
// one row; more rows than the backward has groups of threads; more columns than fit two vectors to a thread
constexpr Shape kShapes[] = {{1, 2048}, {3, 7},      {37, 64},  {700, 64}, {5, 1},    {1100, 96}, {9, 2048},
                             {6, 3072}, {300, 3072}, {5, 4096}, {4, 5120}, {3, 8200}, {2, 16384}};

class NormKernels : public LibraryOnDevice, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(, NormKernels, testing::Bool(),
                         [](const auto& p) { return std::string(p.param ? "LayerNorm" : "RmsNorm"); });

// One norm on both sides.
struct NormCase {
    bool centred;
    Shape shape;
    Layout layout;
    Bf16OnDevice x, dy, passed;
    std::vector<float> weight, bias;
    DeviceArray<Bf16> device_weight, device_bias;
    std::vector<float> mean, reciprocal;  // the CPU's
    DeviceArray<float> statistics;        // the device's
    DeviceScratch scratch;

    NormCase(bool with_mean, Shape s, Layout l, float middle = 0.25F)
        : centred(with_mean),
          shape(s),
          layout(l),
          x(random_bf16(s.rows, s.columns, 1, l, 2, middle)),
          dy(random_bf16(s.rows, s.columns, 2, l)),
          passed(random_bf16(s.rows, s.columns, 3, l)),
          weight(random_bf16_floats(s.columns, 4, 0.5F, 1)),
          bias(random_bf16_floats(s.columns, 5)),
          device_weight(rounded(weight)),
          device_bias(rounded(bias)),
          mean(static_cast<std::size_t>(s.rows)),
          reciprocal(mean),
          statistics(static_cast<std::size_t>(s.rows * (centred ? 2 : 1))) {}

    NormWeights weights() const { return {device_weight.data(), centred ? device_bias.data() : nullptr, kEpsilon}; }
    PaddedTensor reference() {
        PaddedTensor y(shape.rows, shape.columns);
        if (centred)
            layer_norm_forward(x.values(), {weight, bias, kEpsilon}, y.view(), {mean, reciprocal});
        else
            rms_norm_forward(x.values(), weight, kEpsilon, y.view(), reciprocal);
        return y;
    }
    std::vector<float> reference_statistics() const {
        std::vector<float> all = centred ? mean : std::vector<float>{};
        all.insert(all.end(), reciprocal.begin(), reciprocal.end());
        return all;
    }
    // dx, dweight and dbias: gradients begin at 1.
    struct Gradients {
        PaddedTensor dx;
        std::vector<float> weight, bias;
    };
    Gradients reference_backward(bool with_passed) {
        Gradients g{PaddedTensor(shape.rows, shape.columns), std::vector<float>(weight.size(), 1),
                    std::vector<float>(weight.size(), 1)};
        const ConstMatrixView around = with_passed ? passed.values() : ConstMatrixView{};
        if (centred)
            layer_norm_backward({dy.values(), x.values(), weight, mean, reciprocal, around}, g.dx.view(), g.weight,
                                g.bias);
        else
            rms_norm_backward({dy.values(), x.values(), weight, reciprocal, around}, g.dx.view(), g.weight);
        return g;
    }
    Gradients backward(bool with_passed, const Bf16OnDevice& dx) {
        DeviceArray<float> dweight(std::vector<float>(weight.size(), 1)), dbias(std::vector<float>(weight.size(), 1));
        const NormBackward in{dy.view(), x.view(), weights(), statistics.data(),
                              with_passed ? ConstBf16Matrix(passed.view()) : ConstBf16Matrix{}};
        norm_backward(nullptr, in, dx.view(), {dweight.data(), centred ? dbias.data() : nullptr}, scratch.view());
        EXPECT_TRUE(dweight.guard_intact() && dbias.guard_intact());
        return {dx.download(), dweight.download(), dbias.download()};
    }
};

TEST_P(NormKernels, ForwardAgreesWithTheCpu) {
    for (const Shape& s : kShapes)
        for (const Layout& layout : kLayouts) {
            NormCase n(GetParam(), s, layout);
            const PaddedTensor want = n.reference();
            const Bf16OnDevice y(s.rows, s.columns, layout);
            norm_forward(nullptr, n.x.view(), n.weights(), y.view(), n.statistics.data());
            const std::string what = std::to_string(s.rows) + " x " + std::to_string(s.columns);
            expect_rounded(y.download(), want, kNoise, what);
            expect_sums(n.statistics.download(), n.reference_statistics(), 1e-5, what);
            EXPECT_TRUE(n.statistics.guard_intact());
        }
}

TEST_P(NormKernels, AnyLayoutAndInPlaceGiveTheSameBits) {
    for (const Shape& s : kShapes) {
        std::optional<std::vector<std::uint32_t>> first;
        for (const Layout& layout : kLayouts) {
            NormCase n(GetParam(), s, layout);
            norm_forward(nullptr, n.x.view(), n.weights(), n.x.view(), n.statistics.data());
            const auto bits_of = n.x.download().bits();
            if (!first) first = bits_of;
            EXPECT_EQ(*first, bits_of) << s.rows << " x " << s.columns;
        }
        NormCase apart(GetParam(), s, kGapless);
        const Bf16OnDevice y(s.rows, s.columns, kWideRows);
        norm_forward(nullptr, apart.x.view(), apart.weights(), y.view(), apart.statistics.data());
        EXPECT_EQ(*first, y.download().bits()) << s.rows << " x " << s.columns;
    }
}

TEST_P(NormKernels, SumAndNormInOneAreTheSumAndTheNorm) {
    for (const Shape& s : kShapes)
        for (const Layout& layout : kLayouts) {
            NormCase n(GetParam(), s, layout);
            PaddedTensor sum(s.rows, s.columns);
            for (std::int64_t r = 0; r < s.rows; ++r)
                for (std::int64_t c = 0; c < s.columns; ++c)
                    sum.view().row(r)[c] = to_float(to_bf16(n.x.values().row(r)[c] + n.dy.values().row(r)[c]));
            const Bf16OnDevice added(sum, layout), y(s.rows, s.columns, layout), apart(s.rows, s.columns, layout);
            norm_forward(nullptr, added.view(), n.weights(), apart.view(), n.statistics.data());
            const auto statistics = bits(n.statistics.download());
            residual_norm_forward(nullptr, n.x.view(), n.dy.view(), n.dy.view(), n.weights(), y.view(),
                                  n.statistics.data());
            expect_same(n.dy.download(), sum, "sum");
            expect_same(y.download(), apart.download(), "norm of the sum");
            EXPECT_EQ(statistics, bits(n.statistics.download()));
        }
}

TEST_P(NormKernels, CopyAndNormInOneAreTheNorm) {
    for (const Shape& s : kShapes)
        for (const Layout& layout : kLayouts) {
            NormCase n(GetParam(), s, layout);
            const Bf16OnDevice copy(s.rows, s.columns, layout), y(s.rows, s.columns, layout),
                apart(s.rows, s.columns, layout);
            norm_forward(nullptr, n.x.view(), n.weights(), apart.view(), n.statistics.data());
            const auto statistics = bits(n.statistics.download());
            copy_norm_forward(nullptr, n.x.view(), copy.view(), n.weights(), y.view(), n.statistics.data());
            expect_same(copy.download(), n.x.download(), "copy");
            expect_same(y.download(), apart.download(), "norm of what is copied");
            EXPECT_EQ(statistics, bits(n.statistics.download()));
        }
}

TEST_P(NormKernels, BackwardAgreesWithTheCpu) {
    for (const Shape& s : kShapes)
        for (const Layout& layout : kLayouts)
            for (const bool with_passed : {false, true}) {
                NormCase n(GetParam(), s, layout);
                n.reference();
                n.statistics.upload(n.reference_statistics());
                const auto want = n.reference_backward(with_passed);
                const auto got = n.backward(with_passed, Bf16OnDevice(s.rows, s.columns, layout));
                const std::string what = std::to_string(s.rows) + " x " + std::to_string(s.columns);
                // one column has no gradient at all but its cancelled parts: noise alone
                expect_rounded(got.dx, want.dx, s.columns == 1 ? 1e-3 : kNoise, what);
                expect_sums(got.weight, want.weight, 1e-5, what + " dweight");
                expect_sums(got.bias, want.bias, 1e-5, what + " dbias");
            }
}

TEST_P(NormKernels, BackwardRepeatsBitByBitAndInPlace) {
    for (const Shape& s : kShapes) {
        NormCase n(GetParam(), s, kGapless);
        n.reference();
        n.statistics.upload(n.reference_statistics());
        const auto apart = n.backward(true, Bf16OnDevice(s.rows, s.columns, kGapless));
        const auto again = n.backward(true, Bf16OnDevice(s.rows, s.columns, kWideRows));
        const auto over_passed = n.backward(true, n.passed);
        n.passed.reset();
        const auto over_dy = n.backward(true, n.dy);
        for (const auto* other : {&again, &over_passed, &over_dy}) {
            expect_same(other->dx, apart.dx, "dx");
            EXPECT_EQ(bits(other->weight), bits(apart.weight));
            EXPECT_EQ(bits(other->bias), bits(apart.bias));
        }
    }
}

TEST_F(LibraryOnDevice, LayerNormsVarianceDoesNotCancelUnderALargeMean) {
    NormCase n(true, {3, 2048}, kGapless, 256);  // bf16 steps are 2 there
    const PaddedTensor want = n.reference();
    const Bf16OnDevice y(3, 2048, kGapless);
    norm_forward(nullptr, n.x.view(), n.weights(), y.view(), n.statistics.data());
    expect_rounded(y.download(), want, 2e-4, "large mean");  // the mean is exact to 2^-16 of a deviation of about 1
}

}  // namespace
}  // namespace sluice::cuda

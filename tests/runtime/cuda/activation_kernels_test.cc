// SwiGLU and GELU on the device against the CPU's.
#include "runtime/cpu/gelu.h"
#include "runtime/cpu/swiglu.h"
#include "runtime/cuda/activation.h"
#include "tests/runtime/cuda/device_matrix.h"

namespace sluice::cuda {
namespace {

// The fast exponential's and division's errors, of values up to 8 times what they weigh.
constexpr double kNoise = 1e-5;

struct Shape {
    std::int64_t rows, columns;
};
constexpr Shape kShapes[] = {{1, 1}, {5, 7}, {3, 2048}, {33, 264}, {2, 16384}};

// Far beyond what training has, at the front: nothing there may become NaN.
constexpr float kExtreme[] = {0, -0.0F, 100, -100, 30, -30, -88, 88, 1e4F, -1e4F};

PaddedTensor inputs(Shape s, std::uint32_t seed) {
    PaddedTensor x = PaddedTensor::random(s.rows, s.columns, seed, 8);
    std::int64_t c = 0;
    for (const float v : kExtreme)
        if (c < s.columns) x.view().row(0)[c++] = v;
    return x;
}

class ActivationKernels : public LibraryOnDevice {};

TEST_F(ActivationKernels, SwigluAgreesWithTheCpu) {
    for (const Shape& s : kShapes)
        for (const Layout& layout : kLayouts) {
            const Bf16OnDevice gate(inputs(s, 1), layout), up = random_bf16(s.rows, s.columns, 2, layout),
                                                           dy = random_bf16(s.rows, s.columns, 3, layout);
            PaddedTensor want(s.rows, s.columns), want_gate = want, want_up = want;
            sluice::swiglu_forward(gate.values(), up.values(), want.view());
            sluice::swiglu_backward({dy.values(), gate.values(), up.values()}, want_gate.view(), want_up.view());
            const Bf16OnDevice y(s.rows, s.columns, layout), dgate(s.rows, s.columns, layout),
                dup(s.rows, s.columns, layout), again(s.rows, s.columns, layout);
            swiglu_forward(nullptr, gate.view(), up.view(), y.view());
            expect_rounded(y.download(), want, kNoise, "y");
            swiglu_backward(nullptr, dy.view(), gate.view(), up.view(), dgate.view(), dup.view(), {});
            expect_rounded(dgate.download(), want_gate, kNoise, "dgate");
            expect_rounded(dup.download(), want_up, kNoise, "dup");
            const auto first = dgate.download();
            swiglu_backward(nullptr, dy.view(), gate.view(), up.view(), dgate.view(), dup.view(), again.view());
            expect_same(again.download(), y.download(), "y made again");
            expect_same(dgate.download(), first, "dgate beside y");
        }
}

TEST_F(ActivationKernels, SwigluInPlace) {
    const Shape s{7, 2056};
    const Layout layout = kGapless;
    const auto gate = random_bf16(s.rows, s.columns, 1, layout, 4), up = random_bf16(s.rows, s.columns, 2, layout),
               dy = random_bf16(s.rows, s.columns, 3, layout);
    const Bf16OnDevice y(s.rows, s.columns, layout), dgate(s.rows, s.columns, layout), dup(s.rows, s.columns, layout);
    swiglu_backward(nullptr, dy.view(), gate.view(), up.view(), dgate.view(), dup.view(), y.view());
    Bf16OnDevice over_gate = random_bf16(s.rows, s.columns, 1, layout, 4),
                 over_up = random_bf16(s.rows, s.columns, 2, layout),
                 over_dy = random_bf16(s.rows, s.columns, 3, layout);
    swiglu_backward(nullptr, over_dy.view(), over_gate.view(), over_up.view(), over_gate.view(), over_up.view(),
                    over_dy.view());
    expect_same(over_gate.download(), dgate.download(), "dgate");
    expect_same(over_up.download(), dup.download(), "dup");
    expect_same(over_dy.download(), y.download(), "y over dy");
    over_gate.reset();
    swiglu_forward(nullptr, over_gate.view(), up.view(), over_gate.view());
    expect_same(over_gate.download(), y.download(), "y over gate");
}

TEST_F(ActivationKernels, GeluAgreesWithTheCpu) {
    for (const GeluForm form : {GeluForm::kTanh, GeluForm::kErf})
        for (const Shape& s : kShapes)
            for (const Layout& layout : kLayouts) {
                const Bf16OnDevice x(inputs(s, 1), layout), dy = random_bf16(s.rows, s.columns, 3, layout);
                PaddedTensor want(s.rows, s.columns), want_x = want;
                sluice::gelu_forward(form, x.values(), want.view());
                sluice::gelu_backward(form, dy.values(), x.values(), want_x.view());
                const Bf16OnDevice y(s.rows, s.columns, layout), dx(s.rows, s.columns, layout),
                    again(s.rows, s.columns, layout);
                gelu_forward(nullptr, form, x.view(), y.view());
                expect_rounded(y.download(), want, kNoise, "y");
                gelu_backward(nullptr, form, dy.view(), x.view(), dx.view(), {});
                expect_rounded(dx.download(), want_x, kNoise, "dx");
                Bf16OnDevice over_dy = random_bf16(s.rows, s.columns, 3, layout);
                gelu_backward(nullptr, form, over_dy.view(), x.view(), over_dy.view(), again.view());
                expect_same(over_dy.download(), dx.download(), "dx over dy");
                expect_same(again.download(), y.download(), "y made again");
            }
}

TEST_F(ActivationKernels, FarOutNothingIsNan) {
    PaddedTensor far(1, 16);
    for (std::int64_t c = 0; c < 16; ++c)
        far.view().row(0)[c] = std::ldexp(c % 2 == 0 ? 1.0F : -1.0F, static_cast<int>(8 * c));
    const Bf16OnDevice x(far, kGapless), one(PaddedTensor::filled(1, 16, 1), kGapless), y(1, 16, kGapless),
        dx(1, 16, kGapless);
    for (const GeluForm form : {GeluForm::kTanh, GeluForm::kErf}) {
        gelu_backward(nullptr, form, one.view(), x.view(), dx.view(), y.view());
        for (std::int64_t c = 2; c < 16; ++c) {
            EXPECT_EQ(dx.download().view().row(0)[c], c % 2 == 0 ? 1.0F : 0.0F) << c;
            EXPECT_EQ(y.download().view().row(0)[c], c % 2 == 0 ? far.view().row(0)[c] : 0.0F) << c;
        }
    }
}

}  // namespace
}  // namespace sluice::cuda

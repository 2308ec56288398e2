// Sums and copies of rows on the device. Sums of two values of bf16 are exact in fp32, so most results are too.
#include <limits>

#include "runtime/cpu/bias.h"
#include "runtime/cpu/learned_positions.h"
#include "runtime/cpu/residual_add.h"
#include "runtime/cuda/elementwise.h"
#include "tests/runtime/cuda/device_matrix.h"

namespace sluice::cuda {
namespace {

struct Shape {
    std::int64_t rows, columns;
};
constexpr Shape kShapes[] = {{1, 1}, {5, 7}, {1, 2048}, {33, 264}, {700, 64}, {300, 3072}, {2, 16384}};

class ElementwiseKernels : public LibraryOnDevice {};

PaddedTensor sum_of(ConstMatrixView a, ConstMatrixView b) {
    PaddedTensor sum(a.rows, a.columns);
    sluice::residual_add(a, b, sum.view());
    return sum;
}

TEST_F(ElementwiseKernels, ResidualAddApartAndInPlace) {
    for (const Shape& s : kShapes)
        for (const Layout& layout : kLayouts) {
            const auto a = random_bf16(s.rows, s.columns, 1, layout), b = random_bf16(s.rows, s.columns, 2, layout);
            const Bf16OnDevice sum(s.rows, s.columns, layout);
            const PaddedTensor want = rounded_tensor(sum_of(a.values(), b.values()));
            residual_add(nullptr, a.view(), b.view(), sum.view());
            expect_same(sum.download(), want, "apart");
            residual_add(nullptr, a.view(), b.view(), a.view());
            expect_same(a.download(), want, "over a");
        }
}

TEST_F(ElementwiseKernels, BiasIsAddedToEveryRow) {
    for (const Shape& s : kShapes)
        for (const Layout& layout : kLayouts) {
            const auto x = random_bf16(s.rows, s.columns, 1, layout);
            const std::vector<float> bias = random_bf16_floats(s.columns, 2);
            const DeviceArray<Bf16> device_bias(rounded(bias));
            PaddedTensor want(s.rows, s.columns);
            for (std::int64_t r = 0; r < s.rows; ++r)
                for (std::int64_t c = 0; c < s.columns; ++c) want.view().row(r)[c] = x.values().row(r)[c];
            sluice::add_bias(bias, want.view());
            add_bias(nullptr, device_bias.data(), x.view());
            expect_same(x.download(), rounded_tensor(want), "bias");
        }
}

TEST_F(ElementwiseKernels, BiasGradientIsTheSumOfRowsAndRepeatsBitByBit) {
    const DeviceScratch scratch;
    for (const Shape& s : kShapes)
        for (const Layout& layout : kLayouts) {
            const auto dy = random_bf16(s.rows, s.columns, 1, layout, 1, 0.125F);
            std::vector<float> want(static_cast<std::size_t>(s.columns), 2);
            const DeviceArray<float> got(want), again(want);
            sluice::bias_backward(dy.values(), want);
            bias_backward(nullptr, dy.view(), got.data(), scratch.view());
            bias_backward(nullptr, dy.view(), again.data(), scratch.view());
            expect_sums(got.download(), want, 1e-5, "dbias");
            EXPECT_EQ(bits(got.download()), bits(again.download()));
            EXPECT_TRUE(got.guard_intact());
        }
}

TEST_F(ElementwiseKernels, AccumulateBeginsOrAdds) {
    for (const Shape& s : kShapes)
        for (const Layout& layout : kLayouts) {
            const auto values = random_bf16(s.rows, s.columns, 1, layout);
            Fp32OnDevice sum(PaddedTensor::random(s.rows, s.columns, 2), layout);
            const PaddedTensor want = sum_of(sum.values(), values.values());
            accumulate(nullptr, values.view(), sum.view(), false);
            expect_same(sum.download(), want, "added");
            accumulate(nullptr, values.view(), sum.view(), true);
            expect_same(sum.download(), values.download(), "begun");
        }
}

TEST_F(ElementwiseKernels, LearnedPositionsAreRowsOfTheTable) {
    constexpr std::int64_t kPositions = 40, kBegin = 17;
    for (const std::int64_t columns : {7, 264})
        for (const Layout& layout : kLayouts) {
            const std::int64_t rows = kPositions - kBegin;
            const auto table = random_bf16(kPositions, columns, 1, layout), x = random_bf16(rows, columns, 2, layout);
            const PaddedTensor want = rounded_tensor(sum_of(x.values(), table.values().row_range(kBegin, rows)));
            add_learned_positions(nullptr, Tokens{kBegin}, table.view(), x.view());
            expect_same(x.download(), want, "positions");

            Fp32OnDevice gradient(PaddedTensor::random(kPositions, columns, 3), layout);
            PaddedTensor sum = sum_of(gradient.values(), PaddedTensor::filled(kPositions, columns, 0).view());
            sluice::learned_positions_backward(Tokens{kBegin}, want.view(), sum.view());
            learned_positions_backward(nullptr, Tokens{kBegin}, x.view(), gradient.view());
            expect_same(gradient.download(), sum, "gradient of the positions");
        }
}

TEST_F(ElementwiseKernels, RoundingIsToNearestEven) {
    for (const std::int64_t count : {1, 7, 2048, 65535, 65536, 200003})
        for (const std::int64_t offset : {0, 1}) {
            std::vector<float> values = random_floats(static_cast<std::size_t>(count + offset), 1, 3);
            const float ties[] = {1.00390625F, 1.01171875F, -1.00390625F, std::numeric_limits<float>::infinity(),
                                  1e-40F};
            for (std::size_t i = 0; i < std::size(ties) && i < values.size(); ++i)
                values[values.size() - 1 - i] = ties[i];
            const DeviceArray<float> from(values);
            const DeviceArray<Bf16> to(static_cast<std::size_t>(count + offset));
            round_to_bf16(nullptr, from.data() + offset, to.data() + offset, count);
            const std::vector<float> got = floats(to.download());
            for (std::int64_t i = offset; i < count + offset; ++i)
                ASSERT_EQ(got[static_cast<std::size_t>(i)], to_float(to_bf16(values[static_cast<std::size_t>(i)])))
                    << i;
            EXPECT_TRUE(to.guard_intact());
        }
}

template <class Element>
void expect_counted(std::int64_t count, std::int64_t offset) {
    std::vector<float> values = random_floats(static_cast<std::size_t>(count + offset), 1);
    unsigned long long want = 0;
    const float bad[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()};
    for (std::size_t i = static_cast<std::size_t>(offset); i < values.size(); i += 1 + i / 3, ++want)
        values[i] = bad[want % 3];
    std::vector<Element> elements;
    if constexpr (std::is_same_v<Element, Bf16>)
        elements = rounded(values);
    else
        elements = values;
    const DeviceArray<Element> device(elements);
    const DeviceArray<unsigned long long> counter(std::vector<unsigned long long>{5});
    count_non_finite(nullptr, device.data() + offset, count, counter.data());
    EXPECT_EQ(counter.download()[0], want + 5) << count;
}

TEST_F(ElementwiseKernels, NonFiniteValuesAreCounted) {
    for (const std::int64_t count : {1, 7, 2048, 200003, 5000001})
        for (const std::int64_t offset : {0, 1}) {
            expect_counted<Bf16>(count, offset);
            expect_counted<float>(count, offset);
        }
}

TEST_F(ElementwiseKernels, NoRowsAreNothingToDo) {
    residual_add(nullptr, {}, {}, {});
    bias_backward(nullptr, {}, nullptr, {});
    accumulate(nullptr, {}, {}, true);
    round_to_bf16(nullptr, nullptr, nullptr, 0);
    count_non_finite(nullptr, static_cast<const float*>(nullptr), 0, nullptr);
}

}  // namespace
}  // namespace sluice::cuda

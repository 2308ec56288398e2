#include <cmath>
#include <cstring>

#include "base/error.h"
#include "runtime/cuda/gemm.h"
#include "tests/runtime/cuda/device_array.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice::cuda {
namespace {

struct Extents {
    std::int64_t m, n, k;
    std::int64_t gap;  // elements between rows: multiples of 8 are what the model has, others must work too
};

// A matrix on the device, with gaps, and its values on the host; each the columns [8, 8 + columns) of a wider one where
// the gap has room for that.
template <class T>
struct Operand {
    std::int64_t rows, columns, stride, first;
    std::vector<T> values;
    DeviceArray<T> device;

    Operand(std::int64_t r, std::int64_t c, std::int64_t gap, std::vector<T> v)
        : rows(r), columns(c), stride(c + gap), first(gap >= 16 ? 8 : 0), values(std::move(v)), device(values) {}
    BasicMatrixView<T> view() const { return {device.data() + first, rows, columns, stride}; }
    double at(std::int64_t r, std::int64_t c) const { return value(values, r, c); }
    double value(const std::vector<T>& from, std::int64_t r, std::int64_t c) const {
        const T v = from[static_cast<std::size_t>(r * stride + first + c)];
        if constexpr (std::is_same_v<T, Bf16>) {
            return static_cast<double>(to_float(v));
        } else {
            return static_cast<double>(v);
        }
    }
    // Elements between the rows are as they were before.
    bool gaps_equal(const std::vector<T>& after) const {
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::int64_t column = static_cast<std::int64_t>(i) % stride - first;
            if ((column < 0 || column >= columns) && std::memcmp(&values[i], &after[i], sizeof(T)) != 0) return false;
        }
        return true;
    }
};

std::size_t elements(std::int64_t rows, std::int64_t columns, std::int64_t gap) {
    return static_cast<std::size_t>(rows * (columns + gap));
}
Operand<Bf16> bf16_operand(std::int64_t rows, std::int64_t columns, std::int64_t gap, std::uint32_t seed) {
    return {rows, columns, gap, rounded(random_floats(elements(rows, columns, gap), seed))};
}
template <class T>
Operand<T> result_operand(std::int64_t rows, std::int64_t columns, std::int64_t gap, bool add) {
    const auto size = elements(rows, columns, gap);
    const std::vector<float> before = add ? random_floats(size, 3) : poisoned(size);
    if constexpr (std::is_same_v<T, Bf16>) {
        return {rows, columns, gap, rounded(before)};
    } else {
        return {rows, columns, gap, before};
    }
}

struct Form {
    bool ta, tb, add, fp32;
};
std::string text(const Extents& e, const Form& f) {
    return std::string("m ") + std::to_string(e.m) + " n " + std::to_string(e.n) + " k " + std::to_string(e.k) +
           " gap " + std::to_string(e.gap) + (f.ta ? " T" : " N") + (f.tb ? "T" : "N") +
           (f.add ? " add" : " overwrite") + (f.fp32 ? " fp32" : " bf16");
}

// A tensor core adds k products in fp32 in an order of its own and may cut bits off rather than round, hence twice
// Higham's k u, u = 2^-24, of the sum of absolute products; the result is rounded to bf16 once, u = 2^-8; added to
// a bf16 result, some algorithms round the product before they add.
template <class T>
void expect_product(const Extents& e, const Form& f, const Operand<Bf16>& a, const Operand<Bf16>& b,
                    const Operand<T>& c, const std::vector<T>& after) {
    for (std::int64_t i = 0; i < e.m; ++i)
        for (std::int64_t j = 0; j < e.n; ++j) {
            double want = f.add ? c.at(i, j) : 0, size = std::abs(want);
            for (std::int64_t l = 0; l < e.k; ++l) {
                const double product = (f.ta ? a.at(l, i) : a.at(i, l)) * (f.tb ? b.at(j, l) : b.at(l, j));
                want += product;
                size += std::abs(product);
            }
            const double added = f.add ? std::abs(want - c.at(i, j)) : 0;
            const double rounding = f.fp32 ? 0 : std::ldexp(std::abs(want) + added, -8);
            const double bound = std::ldexp((static_cast<double>(e.k) + 3) * size, -23) + 1.01 * rounding;
            ASSERT_NEAR(c.value(after, i, j), want, bound) << "at " << i << ", " << j;
        }
}

template <class T>
void run(const Extents& e, const Form& f, bool measured) {
    const Operand<Bf16> a = bf16_operand(f.ta ? e.k : e.m, f.ta ? e.m : e.k, e.gap, 1);
    const Operand<Bf16> b = bf16_operand(f.tb ? e.n : e.k, f.tb ? e.k : e.n, e.gap, 2);
    const Operand<T> c = result_operand<T>(e.m, e.n, e.gap, f.add);
    const Transpose ta = f.ta ? Transpose::kYes : Transpose::kNo, tb = f.tb ? Transpose::kYes : Transpose::kNo;
    const Store store = f.add ? Store::kAdd : Store::kOverwrite;
    Gemms gemms;
    const GemmShape shape = gemm_shape(ta, a.view(), tb, b.view(), c.view(), store);
    const DeviceArray<std::byte> scratch(static_cast<std::size_t>(gemm_scratch_bytes(shape).value));
    gemms.prepare(shape, nullptr, measured ? std::span(scratch.data(), scratch.count()) : std::span<std::byte>());
    SCOPED_TRACE(gemms.choices().at(0).algorithm);
    EXPECT_EQ(gemms.choices().at(0).time > Seconds{}, measured);
    EXPECT_TRUE(scratch.guard_intact());
    gemms.run(nullptr, ta, a.view(), tb, b.view(), c.view(), store);
    const std::vector<T> after = c.device.download();
    expect_product(e, f, a, b, c, after);
    EXPECT_TRUE(c.gaps_equal(after));
    EXPECT_TRUE(c.device.guard_intact());
}

class GemmForms : public LibraryOnDevice, public ::testing::WithParamInterface<Extents> {
protected:
    // All sixteen: what one throws does not keep the others from being tried.
    static void run_all(bool measured) {
        for (const bool ta : {false, true})
            for (const bool tb : {false, true})
                for (const bool add : {false, true})
                    for (const bool fp32 : {false, true}) {
                        const Form f{ta, tb, add, fp32};
                        SCOPED_TRACE(text(GetParam(), f));
                        try {
                            fp32 ? run<float>(GetParam(), f, measured) : run<Bf16>(GetParam(), f, measured);
                        } catch (const std::exception& error) {
                            ADD_FAILURE() << error.what();
                        }
                    }
    }
};

TEST_P(GemmForms, FirstProposalAgreesWithDouble) { run_all(false); }
TEST_P(GemmForms, FastestProposalAgreesWithDouble) { run_all(true); }

INSTANTIATE_TEST_SUITE_P(Extents, GemmForms,
                         ::testing::Values(Extents{128, 256, 64, 0}, Extents{128, 256, 64, 16},
                                           Extents{136, 72, 1000, 24}, Extents{256, 192, 4096, 0}, Extents{1, 1, 1, 0},
                                           Extents{7, 5, 3, 0}, Extents{129, 67, 31, 0}, Extents{129, 67, 31, 17},
                                           Extents{64, 1, 129, 0}, Extents{1, 300, 77, 3}));

using Gemm = LibraryOnDevice;

// A weight's gradient, over many more tokens than the weight has rows: where an algorithm would cut along k.
TEST_F(Gemm, RepeatsBitByBit) {
    constexpr std::int64_t kTokens = 32768, kOut = 256, kIn = 128;
    const Operand<Bf16> dy = bf16_operand(kTokens, kOut, 0, 1), x = bf16_operand(kTokens, kIn, 0, 2);
    const std::vector<float> before = random_floats(kOut * kIn, 3);
    const DeviceArray<float> dw(before);
    const Fp32Matrix view(dw.data(), kOut, kIn);
    Gemms gemms;
    const GemmShape shape = gemm_shape(Transpose::kYes, dy.view(), Transpose::kNo, x.view(), view, Store::kAdd);
    const DeviceArray<std::byte> scratch(static_cast<std::size_t>(gemm_scratch_bytes(shape).value));
    gemms.prepare(shape, nullptr, {scratch.data(), scratch.count()});
    std::vector<std::uint32_t> first;
    for (int i = 0; i < 20; ++i) {
        must(cudaMemcpy(dw.data(), before.data(), dw.bytes(), cudaMemcpyHostToDevice), "upload");
        gemms.run(nullptr, Transpose::kYes, dy.view(), Transpose::kNo, x.view(), view, Store::kAdd);
        const std::vector<std::uint32_t> got = bits(dw.download());
        if (i == 0) first = got;
        ASSERT_EQ(got, first) << "call " << i << ", " << gemms.choices().at(0).algorithm;
    }
}

// Operand A has more than 2^31 elements: all zeros but in some rows on both sides of that border.
TEST_F(Gemm, ReadsBeyondInt32) {
    constexpr std::int64_t kRows = (1 << 20) + 16, kColumns = 2064, kOut = 32;
    constexpr std::int64_t kMarked[] = {0, 1040447, 1040448, kRows - 1};
    const DeviceArray<Bf16> a(kRows * kColumns);
    must(cudaMemset(a.data(), 0, a.bytes()), "cudaMemset");
    const std::vector<Bf16> row = rounded(random_floats(kColumns, 1));
    for (const std::int64_t r : kMarked)
        must(cudaMemcpy(a.data() + r * kColumns, row.data(), kColumns * sizeof(Bf16), cudaMemcpyHostToDevice),
             "upload");
    const Operand<Bf16> b = bf16_operand(kOut, kColumns, 0, 2);
    const DeviceArray<float> c(kRows * kOut);
    const Fp32Matrix cv(c.data(), kRows, kOut);
    const ConstBf16Matrix av(a.data(), kRows, kColumns);
    Gemms gemms;
    gemms.prepare(gemm_shape(Transpose::kNo, av, Transpose::kYes, b.view(), cv, Store::kOverwrite), nullptr);
    gemms.run(nullptr, Transpose::kNo, av, Transpose::kYes, b.view(), cv);
    const std::vector<float> got = c.download();
    for (std::int64_t r = 0; r < kRows; ++r) {
        const bool marked = std::find(std::begin(kMarked), std::end(kMarked), r) != std::end(kMarked);
        for (std::int64_t j = 0; j < kOut; ++j) {
            double want = 0;
            for (std::int64_t l = 0; marked && l < kColumns; ++l)
                want += static_cast<double>(to_float(row[static_cast<std::size_t>(l)])) * b.at(j, l);
            ASSERT_NEAR(static_cast<double>(got[static_cast<std::size_t>(r * kOut + j)]), want, marked ? 0.02 : 0)
                << "row " << r << " column " << j << ", " << gemms.choices().at(0).algorithm;
        }
    }
}

// The result has more than 2^31 elements.
TEST_F(Gemm, WritesBeyondInt32) {
    constexpr std::int64_t kRows = 65552, kColumns = 32768 + 16, kInner = 64;
    const Operand<Bf16> a = bf16_operand(kRows, kInner, 0, 1), b = bf16_operand(kColumns, kInner, 0, 2);
    const DeviceArray<Bf16> c(kRows * kColumns);
    const Bf16Matrix cv(c.data(), kRows, kColumns);
    Gemms gemms;
    gemms.prepare(gemm_shape(Transpose::kNo, a.view(), Transpose::kYes, b.view(), cv, Store::kOverwrite), nullptr);
    gemms.run(nullptr, Transpose::kNo, a.view(), Transpose::kYes, b.view(), cv);
    for (std::int64_t r = 0; r < kRows; r += r < kRows - 20 ? 1013 : 1) {
        const std::vector<Bf16> got = c.download(static_cast<std::size_t>(r * kColumns), kColumns);
        for (std::int64_t j = 0; j < kColumns; j += 97) {
            double want = 0;
            for (std::int64_t l = 0; l < kInner; ++l) want += a.at(r, l) * b.at(j, l);
            ASSERT_NEAR(static_cast<double>(to_float(got[static_cast<std::size_t>(j)])), want,
                        std::ldexp(std::abs(want), -8) * 1.01 + 1e-3)
                << "row " << r << " column " << j << ", " << gemms.choices().at(0).algorithm;
        }
    }
    EXPECT_TRUE(c.guard_intact());
}

TEST_F(Gemm, RefusesWhatWasNotPrepared) {
    const Operand<Bf16> a = bf16_operand(8, 8, 0, 1), b = bf16_operand(8, 8, 0, 2);
    const DeviceArray<float> c(64);
    Gemms gemms;
    EXPECT_THROW(gemms.run(nullptr, Transpose::kNo, a.view(), Transpose::kNo, b.view(), Fp32Matrix(c.data(), 8, 8)),
                 InternalError);
}

TEST(GemmShapes, CountWhatTheOperandsSpan) {
    const GemmShape s{Transpose::kYes, Transpose::kNo, 100, 200, 300, 128, 256, 512, ResultType::kFp32, Store::kAdd};
    // A is stored as 300 rows of 128, B as 300 of 256, C as 100 of 512; each begins at a multiple of 256 bytes
    EXPECT_EQ(gemm_scratch_bytes(s).value,
              (299 * 128 + 100) * 2 + 56 + ((299 * 256 + 200) * 2 + 112) + (99 * 512 + 200) * 4);
}

// Needs no device: the library is loaded by the first call of one of its functions.
TEST(CublasOnDemand, IsFound) { EXPECT_EQ(cublas_description().rfind("cuBLASLt ", 0), 0U); }

}  // namespace
}  // namespace sluice::cuda

#include "runtime/cpu/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice {
namespace {

struct Case {
    std::int64_t m, n, k;
};
constexpr Case kCases[] = {{1, 1, 1}, {7, 5, 3}, {3, 4, 0}, {1, 64, 128}, {64, 1, 129}, {129, 67, 31}, {64, 128, 401}};

double at(ConstMatrixView m, bool transposed, std::int64_t r, std::int64_t c) {
    return static_cast<double>(transposed ? m.row(c)[r] : m.row(r)[c]);
}

// |error| of a dot product of k terms, in any order, is at most about k u times the sum of the absolute products
// (Higham 2002, section 3.1), u = 2^-24; two more for scale and C.
void expect_product(const Case& s, bool ta, bool tb, ConstMatrixView a, ConstMatrixView b, ConstMatrixView before,
                    ConstMatrixView c, double beta, double scale) {
    for (std::int64_t i = 0; i < s.m; ++i)
        for (std::int64_t j = 0; j < s.n; ++j) {
            double want = beta == 0 ? 0 : static_cast<double>(before.row(i)[j]), size = std::abs(want);
            for (std::int64_t l = 0; l < s.k; ++l) {
                const double product = scale * at(a, ta, i, l) * at(b, tb, l, j);
                want += product;
                size += std::abs(product);
            }
            ASSERT_NEAR(static_cast<double>(c.row(i)[j]), want, (static_cast<double>(s.k) + 3) * std::ldexp(size, -24))
                << s.m << " " << s.n << " " << s.k << " " << ta << tb << " at " << i << ", " << j;
        }
}

TEST(Gemm, AgreesWithDoubleInAllFormsAndKeepsToItsRows) {
    for (const Case& s : kCases)
        for (const bool ta : {false, true})
            for (const bool tb : {false, true})
                for (const Store store : {Store::kOverwrite, Store::kAdd}) {
                    const auto a = PaddedTensor::random(ta ? s.k : s.m, ta ? s.m : s.k, 1);
                    const auto b = PaddedTensor::random(tb ? s.n : s.k, tb ? s.k : s.n, 2);
                    const bool add = store == Store::kAdd;
                    const PaddedTensor before = add ? PaddedTensor::random(s.m, s.n, 3) : PaddedTensor(s.m, s.n);
                    PaddedTensor c = before;
                    gemm(ta ? Transpose::kYes : Transpose::kNo, a.view(), tb ? Transpose::kYes : Transpose::kNo,
                         b.view(), c.view(), store, 0.25F);
                    expect_product(s, ta, tb, a.view(), b.view(), before.view(), c.view(), add ? 1 : 0, 0.25);
                    EXPECT_TRUE(c.gaps_intact());
                }
}

std::vector<std::uint32_t> product_bits() {
    const auto a = PaddedTensor::random(150, 401, 1), b = PaddedTensor::random(130, 401, 2);
    PaddedTensor c(150, 130);
    gemm(Transpose::kNo, a.view(), Transpose::kYes, b.view(), c.view());
    return c.bits();
}

TEST(Gemm, SameBitsFromThreadsAtOnce) {
    const auto want = product_bits();
    std::vector<int> differing(4, 0);
    std::vector<std::thread> threads;
    for (int& count : differing)
        threads.emplace_back([&want, &count] {
            for (int i = 0; i < 20; ++i) count += product_bits() == want ? 0 : 1;
        });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(differing, std::vector<int>(4, 0));
}

// Small products, back to back: what a build of OpenBLAS that does not lock its buffers gets wrong in 2 of 100 calls.
TEST(Gemm, SmallProductsFromManyThreadsAtOnce) {
    const std::vector<float> a = random_floats(48 * 32, 1), b = random_floats(48 * 32, 2);
    const auto product = [&](std::int64_t m, std::vector<float>& c) {
        gemm(Transpose::kNo, {a.data(), m, 32}, Transpose::kYes, {b.data(), 24, 32}, {c.data(), m, 24});
    };
    std::vector<std::vector<float>> want(49, std::vector<float>(48 * 24));
    for (std::int64_t m = 1; m <= 48; ++m) product(m, want[static_cast<std::size_t>(m)]);
    std::vector<int> differing(4, 0);
    std::vector<std::thread> threads;
    for (int& count : differing)
        threads.emplace_back([&] {
            std::vector<float> c(48 * 24);
            for (std::int64_t i = 0; i < 20000; ++i) {
                const std::int64_t m = 1 + i % 48;
                product(m, c);
                const auto& right = want[static_cast<std::size_t>(m)];
                if (!std::equal(c.begin(), c.begin() + m * 24, right.begin())) ++count;
            }
        });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(differing, std::vector<int>(4, 0));
}

// Where a tensor lies in an arena must not show: runs with and without offload are compared bit by bit.
TEST(Gemm, SameBitsAtEveryAlignment) {
    for (const Case& s : kCases)
        for (const Transpose ta : {Transpose::kNo, Transpose::kYes})
            for (const Transpose tb : {Transpose::kNo, Transpose::kYes}) {
                const std::vector<float> values = random_floats(static_cast<std::size_t>(s.k * (s.m + s.n) + 1), 1);
                std::vector<std::uint32_t> first;
                for (std::int64_t shift = 0; shift < 16; shift += 3) {
                    std::vector<float> space = poisoned(values.size() + static_cast<std::size_t>(s.m * s.n) + 64);
                    float *a = space.data() + shift, *b = a + s.m * s.k + shift % 5, *c = b + s.k * s.n + shift % 7;
                    std::copy_n(values.data(), s.m * s.k, a);
                    std::copy_n(values.data() + s.m * s.k, s.k * s.n, b);
                    const ConstMatrixView av =
                        ta == Transpose::kYes ? ConstMatrixView(a, s.k, s.m) : ConstMatrixView(a, s.m, s.k);
                    const ConstMatrixView bv =
                        tb == Transpose::kYes ? ConstMatrixView(b, s.n, s.k) : ConstMatrixView(b, s.k, s.n);
                    gemm(ta, av, tb, bv, MatrixView(c, s.m, s.n));
                    const auto got = bits(std::vector<float>(c, c + s.m * s.n));
                    if (shift == 0) first = got;
                    ASSERT_EQ(got, first) << s.m << " " << s.n << " " << s.k << " shifted by " << shift;
                }
            }
}

TEST(Gemm, RefusesShapesThatDoNotAgree) {
    PaddedTensor a(3, 4), b(5, 6), c(3, 6);
    EXPECT_THROW(gemm(Transpose::kNo, a.view(), Transpose::kNo, b.view(), c.view()), InternalError);
}

}  // namespace
}  // namespace sluice

// Elements beyond index 2^31, where 32-bit offsets fail silently (flash-attention issue 2611 and others). Memory is
// reserved, not used: only the pages that are touched exist.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/cpu/causal_attention.h"
#include "runtime/cpu/gelu.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/layer_norm.h"
#include "runtime/cpu/residual_add.h"
#include "runtime/cpu/rms_norm.h"
#include "runtime/cpu/rotary_table.h"
#include "runtime/cpu/swiglu.h"
#include "runtime/cpu/token_embedding.h"
#include "runtime/cpu/vocabulary_loss.h"
#include "tests/runtime/finite_differences.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice {
namespace {

constexpr std::int64_t kStride = std::numeric_limits<std::int32_t>::max();  // the largest that BLAS takes
constexpr double kRounding = 1e-6;                                          // values are of about 1
constexpr std::int64_t kRows = 4;                                           // the last begins beyond 2^32

class SparseRows {
public:
    explicit SparseRows(std::int64_t columns) : columns_(columns) {
        void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        data_ = p == MAP_FAILED ? nullptr : static_cast<float*>(p);
    }
    SparseRows(const SparseRows&) = delete;
    SparseRows& operator=(const SparseRows&) = delete;
    ~SparseRows() {
        if (data_ != nullptr) munmap(data_, kBytes);
    }
    MatrixView view() const { return {data_, kRows, columns_, kStride}; }
    // Holds the values of a small tensor.
    void put(const PaddedTensor& from) const {
        for (std::int64_t r = 0; r < kRows; ++r) std::copy_n(from.view().row(r), columns_, view().row(r));
    }
    // Equal; within `tolerance` where products are involved, which are cut into several calls for such operands.
    void expect(const PaddedTensor& want, const char* what, double tolerance = 0) const {
        for (std::int64_t r = 0; r < kRows; ++r)
            for (std::int64_t c = 0; c < columns_; ++c)
                ASSERT_NEAR(static_cast<double>(view().row(r)[c]), static_cast<double>(want.view().row(r)[c]),
                            tolerance)
                    << what << " " << r << ", " << c;
    }
    bool reserved() const { return data_ != nullptr; }

private:
    static constexpr std::size_t kBytes = static_cast<std::size_t>((kRows - 1) * kStride + 4096) * sizeof(float);
    std::int64_t columns_;
    float* data_;
};

class BeyondInt32 : public testing::Test {
protected:
    void SetUp() override {
        if (!x.reserved() || !y.reserved() || !z.reserved()) GTEST_SKIP() << "no address space of 3 x 24 GiB here";
        x.put(small_x);
        y.put(small_y);
    }
    SparseRows x{16}, y{16}, z{16};
    PaddedTensor small_x = PaddedTensor::random(kRows, 16, 1), small_y = PaddedTensor::random(kRows, 16, 2),
                 small_z{kRows, 16};
};

TEST_F(BeyondInt32, Elementwise) {
    residual_add(x.view(), y.view(), z.view());
    residual_add(small_x.view(), small_y.view(), small_z.view());
    z.expect(small_z, "residual");
    swiglu_forward(x.view(), y.view(), z.view());
    swiglu_forward(small_x.view(), small_y.view(), small_z.view());
    z.expect(small_z, "swiglu");
    gelu_backward(GeluForm::kTanh, x.view(), y.view(), z.view());
    gelu_backward(GeluForm::kTanh, small_x.view(), small_y.view(), small_z.view());
    z.expect(small_z, "gelu");
}

TEST_F(BeyondInt32, NormsRotationAndRows) {
    const std::vector<float> one(16, 1), zero(16, 0);
    std::vector<float> mean(kRows), reciprocal(kRows), sums(16, 0);
    rms_norm_forward(x.view(), one, 1e-5F, z.view(), reciprocal);
    rms_norm_forward(small_x.view(), one, 1e-5F, small_z.view(), reciprocal);
    z.expect(small_z, "rms norm");
    rms_norm_backward({y.view(), x.view(), one, reciprocal, {}}, z.view(), sums);
    rms_norm_backward({small_y.view(), small_x.view(), one, reciprocal, {}}, small_z.view(), sums);
    z.expect(small_z, "rms norm backward");
    layer_norm_forward(x.view(), {one, zero, 1e-5F}, z.view(), {mean, reciprocal});
    layer_norm_forward(small_x.view(), {one, zero, 1e-5F}, small_z.view(), {mean, reciprocal});
    z.expect(small_z, "layer norm");
    const RotaryShape rotary{8, 8, 10000};
    std::vector<float> table(kRows * 8);
    fill_rotary_table(rotary, Tokens{3}, Tokens{kRows}, table);
    rotate(rotary, table, RotationSense::kForward, z.view());
    rotate(rotary, table, RotationSense::kForward, small_z.view());
    z.expect(small_z, "rotation");
    const std::vector<TokenId> ids{3, 0, 2, 1};
    const VocabularyShard shard{kRows, 0, kRows};
    EXPECT_EQ(token_embedding_forward(ids, shard, x.view(), z.view()), std::nullopt);
    EXPECT_EQ(token_embedding_forward(ids, shard, small_x.view(), small_z.view()), std::nullopt);
    z.expect(small_z, "embedding");
}

TEST_F(BeyondInt32, LossAndGemm) {
    const std::vector<TokenId> targets{3, 0, 15, 1};
    const VocabularyShard shard{16, 0, 16};
    std::vector<LossPartial> partials(kRows), small_partials(kRows);
    std::vector<float> total(kRows);
    EXPECT_EQ(loss_partials(x.view(), targets, shard, partials), std::nullopt);
    EXPECT_EQ(loss_partials(small_x.view(), targets, shard, small_partials), std::nullopt);
    EXPECT_EQ(partials[3].sum, small_partials[3].sum);
    combine_loss_partials(partials, 1, total);
    logits_gradient(total, targets, shard, Tokens{kRows}, x.view());
    logits_gradient(total, targets, shard, Tokens{kRows}, small_x.view());
    x.expect(small_x, "gradient of logits");
    const PaddedTensor b = PaddedTensor::random(16, 16, 3);
    gemm(Transpose::kNo, x.view(), Transpose::kNo, b.view(), z.view());
    gemm(Transpose::kNo, small_x.view(), Transpose::kNo, b.view(), small_z.view());
    z.expect(small_z, "gemm", kRounding);
}

TEST_F(BeyondInt32, Attention) {
    // two heads of 8 on one key/value head, all rows far apart; query, key/value and gradients share reservations
    const AttentionShape shape{Tokens{0}, Tokens{kRows}, 2, 1, 8};
    std::vector<float> space(static_cast<std::size_t>(attention_backward_workspace(shape).value) / sizeof(float));
    std::vector<float> far_total(2 * kRows), near_total(2 * kRows);
    const auto halves = [](MatrixView m) { return std::pair(m.column_range(0, 8), m.column_range(8, 8)); };
    const auto run = [&](MatrixView q, MatrixView kv, MatrixView out, MatrixView dq, std::span<float> total) {
        const auto [k, v] = halves(kv);
        attention_forward(shape, {q, k, v}, {out, total}, space);
        PaddedTensor accumulators = PaddedTensor::filled(kRows, 16, 0);
        const auto [dk, dv] = halves(accumulators.view());
        attention_backward(shape, {q, k, v}, {out, total}, q, {dq, dk, dv}, space);
        return accumulators.doubles();
    };
    const SparseRows dq(16);
    ASSERT_TRUE(dq.reserved());
    PaddedTensor small_dq(kRows, 16);
    const auto got = run(x.view(), y.view(), z.view(), dq.view(), far_total);
    EXPECT_LT(relative_error(got, run(small_x.view(), small_y.view(), small_z.view(), small_dq.view(), near_total)),
              kRounding);
    z.expect(small_z, "out", kRounding);
    dq.expect(small_dq, "dq", kRounding);
    // and accumulators far apart
    const SparseRows far(16);
    ASSERT_TRUE(far.reserved());
    PaddedTensor near = PaddedTensor::filled(kRows, 16, 0);
    const auto backward = [&](MatrixView accumulators) {
        const auto [k, v] = halves(small_y.view());
        const auto [dk, dv] = halves(accumulators);
        attention_backward(shape, {small_x.view(), k, v}, {small_z.view(), near_total}, small_x.view(),
                           {small_dq.view(), dk, dv}, space);
    };
    backward(far.view());
    backward(near.view());
    far.expect(near, "dk and dv", kRounding);
}

}  // namespace
}  // namespace sluice

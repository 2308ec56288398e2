// Elements beyond index 2^31 on the device. Rows of small matrices lie 2^31 elements apart in one large allocation, and
// results must have the bits that they have where rows lie close; and whole arrays of more than 2^31 elements. Skips
// where memory is short.
#include <limits>
#include <memory>

#include "runtime/cuda/activation.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/norm.h"
#include "runtime/cuda/optimizer.h"
#include "runtime/cuda/rotary.h"
#include "runtime/cuda/token_embedding.h"
#include "runtime/cuda/vocabulary_loss.h"
#include "tests/runtime/cuda/device_matrix.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kStride = std::int64_t{1} << 31;
constexpr std::int64_t kRows = 2, kColumns = 64;
constexpr std::int64_t kBeyond = (std::int64_t{1} << 31) + 1027;  // elements of a whole array

// Device memory of which little is looked at.
template <class Element>
class Large {
public:
    explicit Large(std::int64_t count) {
        std::size_t available = 0, all = 0;
        must(cudaMemGetInfo(&available, &all), "cudaMemGetInfo");
        bytes_ = static_cast<std::size_t>(count) * sizeof(Element);
        if (available > bytes_ + (std::size_t{1} << 28)) must(cudaMalloc(&data_, bytes_), "cudaMalloc");
    }
    ~Large() { cudaFree(data_); }
    Large(const Large&) = delete;
    Large& operator=(const Large&) = delete;

    explicit operator bool() const { return data_ != nullptr; }
    Element* data() const { return static_cast<Element*>(data_); }
    void fill(int byte) const { must(cudaMemset(data_, byte, bytes_), "cudaMemset"); }
    void put(std::int64_t at, Element value) const {
        must(cudaMemcpy(data() + at, &value, sizeof value, cudaMemcpyHostToDevice), "upload");
    }
    Element get(std::int64_t at) const {
        Element value{};
        must(cudaMemcpy(&value, data() + at, sizeof value, cudaMemcpyDeviceToHost), "download");
        return value;
    }

private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

// Matrices of one allocation, beside each other in columns: rows begin 2^31 elements apart.
template <class Element>
class FarRows {
public:
    static constexpr std::int64_t kMatrices = 8;
    FarRows() : memory_((kRows - 1) * kStride + kMatrices * kColumns) {}
    explicit operator bool() const { return static_cast<bool>(memory_); }
    BasicMatrixView<Element> view(std::int64_t matrix) const {
        return {memory_.data() + matrix * kColumns, kRows, kColumns, kStride};
    }
    void put(std::int64_t matrix, BasicMatrixView<Element> from) const { copy(view(matrix), from); }
    std::vector<std::uint8_t> bytes(BasicMatrixView<Element> from) const {
        const DeviceArray<std::uint8_t> close(kRows * kColumns * sizeof(Element));
        copy({reinterpret_cast<Element*>(close.data()), kRows, kColumns}, from);
        return close.download();
    }

private:
    static void copy(BasicMatrixView<Element> to, BasicMatrixView<Element> from) {
        for (std::int64_t r = 0; r < kRows; ++r)
            must(cudaMemcpy(to.row(r), from.row(r), kColumns * sizeof(Element), cudaMemcpyDeviceToDevice), "copy");
    }
    Large<Element> memory_;
};

#define SKIP_WITHOUT(memory) \
    if (!(memory)) GTEST_SKIP() << "not enough device memory"

class BeyondInt32Kernels : public LibraryOnDevice {
protected:
    // The kernel runs on matrices 0, 1, 2 ... of `far` and on close copies of them; matrix `result` must be the same.
    template <class Element, class Kernel>
    void expect_alike(const FarRows<Element>& far, std::int64_t result, const char* what, const Kernel& kernel) {
        std::vector<std::unique_ptr<DeviceMatrix<Element>>> close;
        for (std::int64_t m = 0; m < FarRows<Element>::kMatrices; ++m) {
            const auto seed = static_cast<std::uint32_t>(m + 1);
            close.push_back(
                std::make_unique<DeviceMatrix<Element>>(PaddedTensor::random(kRows, kColumns, seed), kWideRows));
            far.put(m, close.back()->view());
        }
        kernel([&](std::int64_t m) { return far.view(m); });
        const auto got = far.bytes(far.view(result));
        kernel([&](std::int64_t m) { return close[static_cast<std::size_t>(m)]->view(); });
        EXPECT_EQ(got, far.bytes(close[static_cast<std::size_t>(result)]->view())) << what;
    }
};

TEST_F(BeyondInt32Kernels, RowsOfBf16) {
    const FarRows<Bf16> far;
    SKIP_WITHOUT(far);
    const DeviceScratch scratch;
    const DeviceArray<float> statistics(2 * kRows), sums(std::vector<float>(kColumns, 0));
    const DeviceArray<Bf16> weight(rounded(random_floats(kColumns, 9)));
    const NormWeights weights{weight.data(), weight.data(), 1e-5F};
    expect_alike(far, 2, "sum", [&](auto m) { residual_add(nullptr, m(0), m(1), m(2)); });
    expect_alike(far, 0, "bias", [&](auto m) { add_bias(nullptr, weight.data(), m(0)); });
    expect_alike(far, 2, "norm", [&](auto m) { norm_forward(nullptr, m(0), weights, m(2), statistics.data()); });
    expect_alike(far, 1, "copy",
                 [&](auto m) { copy_norm_forward(nullptr, m(0), m(1), weights, m(2), statistics.data()); });
    expect_alike(far, 3, "sum and norm",
                 [&](auto m) { residual_norm_forward(nullptr, m(0), m(1), m(2), weights, m(3), statistics.data()); });
    expect_alike(far, 3, "norm backward", [&](auto m) {
        norm_backward(nullptr, {m(0), m(1), weights, statistics.data(), m(2)}, m(3), {sums.data(), sums.data()},
                      scratch.view());
    });
    expect_alike(far, 2, "swiglu", [&](auto m) { swiglu_forward(nullptr, m(0), m(1), m(2)); });
    expect_alike(far, 4, "swiglu backward",
                 [&](auto m) { swiglu_backward(nullptr, m(0), m(1), m(2), m(3), m(4), m(5)); });
    expect_alike(far, 2, "gelu backward",
                 [&](auto m) { gelu_backward(nullptr, GeluForm::kErf, m(0), m(1), m(2), m(3)); });
    expect_alike(far, 0, "rotation", [&](auto m) {
        rotate(nullptr, {16, 16, 1e4}, Tokens{5}, RotationSense::kForward, m(0));
    });
    expect_alike(far, 2, "rotated sum", [&](auto m) {
        rotate_and_round(nullptr, {16, 16, 1e4}, Tokens{5}, RotationSense::kBackward, 32, ConstBf16Matrix(m(0)), m(1),
                         m(2));
    });
    const DeviceArray<TokenId> ids(std::vector<TokenId>{1, 1});
    expect_alike(far, 1, "embedding", [&](auto m) {
        token_embedding_forward(nullptr, ids.data(), {2, 0, 2}, m(0), m(1));
    });
}

TEST_F(BeyondInt32Kernels, RowsOfFp32) {
    const FarRows<float> far;
    const FarRows<Bf16> far_bf16;
    SKIP_WITHOUT(far && far_bf16);
    const auto bf16 = random_bf16(kRows, kColumns, 20);
    far_bf16.put(0, bf16.view());
    // the same values, far or close, beside the fp32 matrices
    expect_alike(far, 0, "accumulate", [&](auto m) { accumulate(nullptr, far_bf16.view(0), m(0), false); });
    const DeviceArray<std::int32_t> token(std::vector<std::int32_t>{1}), row(std::vector<std::int32_t>{1}),
        begin(std::vector<std::int32_t>{0, 1});
    expect_alike(far, 0, "embedding backward", [&](auto m) {
        token_embedding_backward(nullptr, {token.data(), row.data(), begin.data(), 1}, far_bf16.view(0), m(0));
    });
    expect_alike(far, 1, "accumulated after rotation", [&](auto m) {
        rotate_and_round(nullptr, {16, 16, 1e4}, Tokens{5}, RotationSense::kBackward, 32, ConstFp32Matrix(m(0)),
                         far_bf16.view(0), far_bf16.view(1));
        accumulate(nullptr, far_bf16.view(1), m(1), true);
    });
    const DeviceArray<TokenId> targets(std::vector<TokenId>{3, 63});
    const DeviceArray<LossPartial> partials(kRows);
    const DeviceArray<float> log_sum_exp(kRows);
    const DeviceArray<double> loss(std::vector<double>{0});
    const VocabularyShard shard{kColumns, 0, kColumns};
    expect_alike(far, 0, "loss", [&](auto m) {
        loss_partials(nullptr, m(0), targets.data(), shard, partials.data());
        combine_loss_partials(nullptr, partials.data(), 1, kRows, log_sum_exp.data(), loss.data());
        logits_gradient(nullptr, log_sum_exp.data(), targets.data(), shard, Tokens{kRows}, m(0));
    });
}

TEST_F(BeyondInt32Kernels, ManyElementsOfOneMatrix) {
    constexpr std::int64_t kWide = 1 << 16, kMany = (kStride >> 16) + 3;
    const Large<Bf16> x(kWide * kMany);
    SKIP_WITHOUT(x);
    x.fill(0x3f);  // 0.746...
    const Bf16Matrix all(x.data(), kMany, kWide);
    residual_add(nullptr, all, all, all);
    for (const std::int64_t at : {std::int64_t{0}, kStride - 1, kStride, kWide * kMany - 1})
        EXPECT_EQ(x.get(at).bits, 0x3fbf) << at;  // twice as much
}

TEST_F(BeyondInt32Kernels, ManyValuesOfOneArray) {
    const Large<float> values(kBeyond);
    const Large<Bf16> out(kBeyond);
    SKIP_WITHOUT(values && out);
    values.fill(0);
    values.put(kBeyond - 1, 3);
    values.put(kStride, 4);
    const DeviceScratch scratch;
    const DeviceArray<double> sum(std::vector<double>{0});
    sum_of_squares(nullptr, values.data(), kBeyond, sum.data(), scratch.view());
    EXPECT_EQ(sum.download()[0], 25);
    round_to_bf16(nullptr, values.data(), out.data(), kBeyond);
    EXPECT_EQ(to_float(out.get(kBeyond - 1)), 3);
    EXPECT_EQ(to_float(out.get(kStride)), 4);
    EXPECT_EQ(to_float(out.get(kStride + 1)), 0);
    values.put(kBeyond - 2, std::numeric_limits<float>::infinity());
    const DeviceArray<unsigned long long> count(std::vector<unsigned long long>{0});
    count_non_finite(nullptr, values.data(), kBeyond, count.data());
    EXPECT_EQ(count.download()[0], 1U);
}

TEST_F(BeyondInt32Kernels, ManyParameters) {
    const Large<float> gradients(kBeyond), master(kBeyond), first(kBeyond), second(kBeyond);
    const Large<Bf16> weights(kBeyond);
    SKIP_WITHOUT(gradients && master && first && second && weights);
    for (const auto* array : {&gradients, &master, &first, &second}) array->fill(0);
    weights.fill(0);
    for (const std::int64_t at : {kStride, kBeyond - 1}) gradients.put(at, 2);
    const DeviceArray<double> squares(std::vector<double>{8});
    adamw(nullptr, {0.5F, 0.5F, 0.5F, 0, 0, 1, 1}, 0, squares.data(),
          {gradients.data(), master.data(), first.data(), second.data(), weights.data(), kBeyond});
    // the first step goes against the gradient's sign by the whole learning rate (0 / 0 elsewhere)
    for (const std::int64_t at : {kStride, kBeyond - 1}) {
        EXPECT_EQ(first.get(at), 1) << at;
        EXPECT_NEAR(master.get(at), -0.5F, 1e-6F) << at;
        EXPECT_NEAR(to_float(weights.get(at)), -0.5F, 1e-2F) << at;
    }
    EXPECT_EQ(first.get(kBeyond - 2), 0);
}

}  // namespace
}  // namespace sluice::cuda

// The one matrix product on the GPU: row-major bf16 by cuBLASLt, fp32 accumulation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

enum class ResultType : std::uint8_t { kBf16, kFp32 };

// C = op(A) op(B), or C += that; op(A) is (m, k), op(B) (k, n), C (m, n), as in runtime/cpu/gemm.h. m, n, k >= 1, with
// no upper bound: extents and strides are 64 bits wide. Any extent and stride works; those that are multiples of 8 are
// fast.
struct GemmShape {
    Transpose a = Transpose::kNo, b = Transpose::kNo;
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // elements from row to row, as stored
    ResultType result = ResultType::kBf16;
    Store store = Store::kOverwrite;
    friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

struct GemmChoice {
    GemmShape shape;
    std::string algorithm;  // of cuBLASLt, as its attributes say: tile, stages, split, ...
    Seconds time{};         // of one call, measured when it was chosen; 0: the heuristic's first, not measured
};

// All products of one rank: a handle, a workspace, and an algorithm for every shape, chosen before the first step.
// Reproducible: a shape runs with one algorithm, and none of those that add parts of a sum in the order in which they
// happen to be ready is ever chosen. With `scratch` the choice rests on a measurement, so another run may choose, and
// round, otherwise. There is one workspace: products of one object follow each other on one stream.
class Gemms {
public:
    static constexpr std::int64_t kWorkspaceBytes = 64 << 20;  // its own device memory

    // `multiprocessors`: of the part of the GPU that all products run on, so that the library cuts them for that many;
    // 0: the whole GPU. Throws EnvironmentError where the device or the library refuses.
    explicit Gemms(int multiprocessors = 0);
    ~Gemms();
    Gemms(const Gemms&) = delete;
    Gemms& operator=(const Gemms&) = delete;

    // Chooses the algorithm of a shape, once. With `scratch` (device memory, whose values are lost; at least
    // gemm_scratch_bytes of the shape) the library's best proposals are timed on `stream`, in about 50 ms, and the
    // fastest is taken; where a call takes more than half a millisecond, the fastest of the best under load, in some
    // 50 ms each, or what was the fastest so for a shape that differs in one extent. Without, or with less of it, its
    // first proposal. Waits. Throws InputError for a shape that the library has no algorithm for.
    void prepare(const GemmShape&, Stream stream, std::span<std::byte> scratch = {});

    // Requires: prepared; every operand begins at a multiple of 16 bytes. Allocates nothing.
    void run(Stream, Transpose a_as, ConstBf16Matrix a, Transpose b_as, ConstBf16Matrix b, Bf16Matrix c,
             Store = Store::kOverwrite);
    void run(Stream, Transpose a_as, ConstBf16Matrix a, Transpose b_as, ConstBf16Matrix b, Fp32Matrix c,
             Store = Store::kOverwrite);

    std::vector<GemmChoice> choices() const;  // by shape

private:
    struct State;
    std::unique_ptr<State> state_;
};

GemmShape gemm_shape(Transpose a_as, ConstBf16Matrix a, Transpose b_as, ConstBf16Matrix b, Bf16Matrix c, Store);
GemmShape gemm_shape(Transpose a_as, ConstBf16Matrix a, Transpose b_as, ConstBf16Matrix b, Fp32Matrix c, Store);

// What prepare() needs to measure: the memory that the three operands span.
Bytes gemm_scratch_bytes(const GemmShape&);

// Name and version of the library, for provenance.
std::string cublas_description();

}  // namespace sluice::cuda

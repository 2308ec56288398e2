#include "runtime/cuda/gemm.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/plausible_values.h"
#include "runtime/cuda/stream_stopwatch.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kAlignment = 256;       // of operands in the scratch of a measurement
constexpr std::uintptr_t kBaseAlignment = 16;  // bytes, promised by callers for every operand
constexpr int kProposals = 8;
constexpr int kTimedRuns = 3;
constexpr Seconds kMeasureTime{0.05};    // of one shape, all proposals together
constexpr double kClearlyFaster = 0.99;  // noise must not overrule the library's own order

// Under load the GPU's limit of power counts, too (docs/simulator.md): a proposal that takes fewer cycles may take more
// power. It shows when one runs for longer than the limit's window, some 30 ms.
constexpr Seconds kWorthLoading{0.5e-3};  // shorter products choose by their first times
constexpr Seconds kLoadTime{0.025};       // of one proposal, once to get there and once measured
constexpr double kMayWinUnderLoad = 1.10;

const char* letter(Transpose t) { return t == Transpose::kYes ? "T" : "N"; }

std::string text(const GemmShape& s) {
    return fmt::format("product {}{} of bf16, m {}, n {}, k {}, strides {}, {}, {}, {} {}", letter(s.a), letter(s.b),
                       s.m, s.n, s.k, s.a_stride, s.b_stride, s.c_stride, s.store == Store::kAdd ? "added to" : "into",
                       s.result == ResultType::kFp32 ? "fp32" : "bf16");
}

struct DestroyHandle {
    void operator()(cublasLtContext* h) const { cublasLtDestroy(h); }
};
struct DestroyMatmul {
    void operator()(cublasLtMatmulDescOpaque_t* d) const { cublasLtMatmulDescDestroy(d); }
};
struct DestroyLayout {
    void operator()(cublasLtMatrixLayoutOpaque_t* l) const { cublasLtMatrixLayoutDestroy(l); }
};
struct DestroyPreference {
    void operator()(cublasLtMatmulPreferenceOpaque_t* p) const { cublasLtMatmulPreferenceDestroy(p); }
};
using Handle = std::unique_ptr<cublasLtContext, DestroyHandle>;
using Matmul = std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyMatmul>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyLayout>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyPreference>;

// Rows of a matrix as it is stored, and their length.
struct Extent {
    std::int64_t rows = 0, columns = 0, stride = 0;
    std::int64_t span() const { return (rows - 1) * stride + columns; }
};
Extent stored_a(const GemmShape& s) {
    return s.a == Transpose::kYes ? Extent{s.k, s.m, s.a_stride} : Extent{s.m, s.k, s.a_stride};
}
Extent stored_b(const GemmShape& s) {
    return s.b == Transpose::kYes ? Extent{s.n, s.k, s.b_stride} : Extent{s.k, s.n, s.b_stride};
}
Extent stored_c(const GemmShape& s) { return {s.m, s.n, s.c_stride}; }

cudaDataType_t type_of(ResultType r) { return r == ResultType::kFp32 ? CUDA_R_32F : CUDA_R_16BF; }

// To cuBLASLt, which counts along columns, a row-major matrix is its own transpose.
Layout as_column_major(const Extent& e, cudaDataType_t type, const std::string& what) {
    cublasLtMatrixLayout_t layout = nullptr;
    check_cublas(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(e.columns),
                                            static_cast<std::uint64_t>(e.rows), e.stride),
                 "cublasLtMatrixLayoutCreate, " + what);
    return Layout(layout);
}

// C = op(A) op(B) along rows is C^T = op(B)^T op(A)^T along columns: the operands change places, and what is stored as
// op's argument is already the transpose, so that every `op` keeps its meaning.
struct Operation {
    Matmul matmul;
    Layout first, second, result;  // B, A and C
};

Operation operation(const GemmShape& s, std::int32_t multiprocessors) {
    const std::string what = text(s);
    cublasLtMatmulDesc_t matmul = nullptr;
    check_cublas(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                 "cublasLtMatmulDescCreate, " + what);
    Operation made{Matmul(matmul), as_column_major(stored_b(s), CUDA_R_16BF, what),
                   as_column_major(stored_a(s), CUDA_R_16BF, what),
                   as_column_major(stored_c(s), type_of(s.result), what)};
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, Transpose t) {
        const cublasOperation_t op = t == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N;
        check_cublas(cublasLtMatmulDescSetAttribute(matmul, attribute, &op, sizeof op),
                     "cublasLtMatmulDescSetAttribute of a transpose, " + what);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, s.b);
    set(CUBLASLT_MATMUL_DESC_TRANSB, s.a);
    if (multiprocessors > 0)
        check_cublas(cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &multiprocessors,
                                                    sizeof multiprocessors),
                     "cublasLtMatmulDescSetAttribute of multiprocessors, " + what);
    return made;
}

template <class Value>
void prefer(const Preference& p, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(p.get(), attribute, &value, sizeof value),
                 fmt::format("cublasLtMatmulPreferenceSetAttribute {}", static_cast<int>(attribute)));
}

// Partial sums of a product that is cut along k go to the workspace in fp32 and are added up in a fixed order. The
// other schemes add them up in the order of their arrival, or round them to the result's type first.
constexpr std::uint32_t kReproducible = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

Preference preference() {
    cublasLtMatmulPreference_t created = nullptr;
    check_cublas(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
    Preference p(created);
    prefer(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(Gemms::kWorkspaceBytes));
    prefer(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReproducible);
    for (const auto operand : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        prefer(p, operand, static_cast<std::uint32_t>(kBaseAlignment));
    return p;
}

template <class Value>
Value configured(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
    Value value{};
    std::size_t written = 0;
    check_cublas(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written),
                 fmt::format("cublasLtMatmulAlgoConfigGetAttribute {}", static_cast<int>(attribute)));
    return value;
}

std::string text(const cublasLtMatmulAlgo_t& a) {
    return fmt::format("id {} tile {} stages {} split-k {} reduction {} swizzle {} custom {} inner {} cluster {}",
                       configured<std::int32_t>(a, CUBLASLT_ALGO_CONFIG_ID),
                       configured<std::uint32_t>(a, CUBLASLT_ALGO_CONFIG_TILE_ID),
                       configured<std::uint32_t>(a, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                       configured<std::int32_t>(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                       configured<std::uint32_t>(a, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                       configured<std::uint32_t>(a, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
                       configured<std::uint32_t>(a, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
                       configured<std::uint16_t>(a, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID),
                       configured<std::uint16_t>(a, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
}

std::vector<cublasLtMatmulAlgo_t> proposals(cublasLtHandle_t handle, const Operation& op, const GemmShape& s) {
    const Preference p = preference();
    std::array<cublasLtMatmulHeuristicResult_t, kProposals> results{};
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, op.matmul.get(), op.first.get(), op.second.get(), op.result.get(),
                                       op.result.get(), p.get(), kProposals, results.data(), &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check_cublas(status, "cublasLtMatmulAlgoGetHeuristic, " + text(s));
    std::vector<cublasLtMatmulAlgo_t> usable;
    for (const auto& r : std::span(results).first(static_cast<std::size_t>(std::max(found, 0))))
        if (r.state == CUBLAS_STATUS_SUCCESS && r.workspaceSize <= static_cast<std::size_t>(Gemms::kWorkspaceBytes) &&
            (configured<std::uint32_t>(r.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) & ~kReproducible) == 0)
            usable.push_back(r.algo);
    if (usable.empty())
        throw InputError(fmt::format("{}: cuBLASLt {} has no reproducible algorithm for it (it proposed {})", text(s),
                                     cublasLtGetVersion(), found));
    return usable;
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
std::int64_t bytes_of(ResultType r) { return r == ResultType::kFp32 ? 4 : 2; }

struct Plan {
    Operation operation;
    cublasLtMatmulAlgo_t algorithm{};
    float beta = 0;
    GemmChoice choice;
};

struct Operands {
    const void *a = nullptr, *b = nullptr;
    void* c = nullptr;
};

cublasStatus_t launch(cublasLtHandle_t handle, const Plan& plan, const Operands& at, void* workspace, Stream stream) {
    constexpr float kAlpha = 1;
    const Operation& op = plan.operation;
    return cublasLtMatmul(handle, op.matmul.get(), &kAlpha, at.b, op.first.get(), at.a, op.second.get(), &plan.beta,
                          at.c, op.result.get(), at.c, op.result.get(), &plan.algorithm, workspace,
                          static_cast<std::size_t>(Gemms::kWorkspaceBytes), stream);
}

// Three operands in the scratch, of values as a step has them: constant ones cost less power and run faster.
Operands lay_out(const GemmShape& s, std::span<std::byte> scratch, Stream stream) {
    const std::int64_t b = aligned(2 * stored_a(s).span()), c = b + aligned(2 * stored_b(s).span());
    fill_plausible(stream, reinterpret_cast<Bf16*>(scratch.data()), gemm_scratch_bytes(s).value / 2, 1, 1);
    return {scratch.data(), scratch.data() + b, scratch.data() + c};
}

struct Proposal {
    cublasLtMatmulAlgo_t algorithm{};
    Seconds time{};  // of one call
};

// Times the proposals for one shape on its operands.
class Trial {
public:
    Trial(cublasLtHandle_t handle, Plan& plan, const Operands& at, void* workspace, Stream stream)
        : handle_(handle), plan_(plan), at_(at), workspace_(workspace), stream_(stream) {}

    // In the library's order, until they or the time are used up; what the library then refuses to run is left out. The
    // first call of each is not counted: it may load the kernel.
    std::vector<Proposal> first_times(std::span<const cublasLtMatmulAlgo_t> proposed) {
        std::vector<Proposal> timed;
        Seconds spent{};
        for (const cublasLtMatmulAlgo_t& algorithm : proposed) {
            plan_.algorithm = algorithm;
            if (!time_of(1)) continue;
            Seconds time = time_of(1).value();
            spent += time * 2.0;
            if (time * static_cast<double>(kTimedRuns * kProposals) < kMeasureTime) {
                time = time_of(kTimedRuns).value();
                spent += time * static_cast<double>(kTimedRuns);
            }
            timed.push_back({algorithm, time});
            if (spent > kMeasureTime) break;
        }
        return timed;
    }

    // Again those that may be the fastest under load.
    std::vector<Proposal> loaded_times(const std::vector<Proposal>& timed, Seconds fastest) {
        std::vector<Proposal> loaded;
        for (const Proposal& p : timed) {
            if (p.time > fastest * kMayWinUnderLoad) continue;
            plan_.algorithm = p.algorithm;
            const int runs = static_cast<int>(std::ceil(kLoadTime / p.time));
            time_of(runs);
            loaded.push_back({p.algorithm, time_of(runs).value()});
        }
        return loaded;
    }

private:
    // Of one call; nothing for a proposal that the library refuses to run.
    std::optional<Seconds> time_of(int runs) {
        StreamStopwatch stopwatch(stream_);
        stopwatch.start();
        for (int i = 0; i < runs; ++i)
            if (launch(handle_, plan_, at_, workspace_, stream_) != CUBLAS_STATUS_SUCCESS) return std::nullopt;
        return stopwatch.stop() / static_cast<double>(runs);
    }

    cublasLtHandle_t handle_;
    Plan& plan_;
    const Operands& at_;
    void* workspace_;
    Stream stream_;
};

// Requires: some.
Proposal fastest_of(const std::vector<Proposal>& timed) {
    Proposal best = timed.front();
    for (const Proposal& p : timed)
        if (p.time < best.time * kClearlyFaster) best = p;
    return best;
}

// What won under load, for shapes that differ in one extent only: the tokens of another subsequence, say.
class LoadedChoices {
public:
    void add(const GemmShape& s, const Proposal& winner) { winners_.emplace_back(s, text(winner.algorithm)); }

    // The winner of the shape's kin, where it is among the proposals and not clearly slower than they are here.
    const Proposal* among(const std::vector<Proposal>& timed, Seconds fastest, const GemmShape& s) const {
        for (const auto& [shape, algorithm] : winners_) {
            if (!kin(shape, s)) continue;
            for (const Proposal& p : timed)
                if (p.time <= fastest * kMayWinUnderLoad && text(p.algorithm) == algorithm) return &p;
        }
        return nullptr;
    }

private:
    static bool kin(const GemmShape& x, const GemmShape& y) {
        return x.a == y.a && x.b == y.b && x.result == y.result && x.store == y.store &&
               (x.m == y.m) + (x.n == y.n) + (x.k == y.k) >= 2;
    }

    std::vector<std::pair<GemmShape, std::string>> winners_;
};

void take_fastest(cublasLtHandle_t handle, Plan& plan, std::span<const cublasLtMatmulAlgo_t> proposed,
                  const Operands& at, void* workspace, Stream stream, LoadedChoices& loaded) {
    Trial trial(handle, plan, at, workspace, stream);
    const std::vector<Proposal> timed = trial.first_times(proposed);
    plan.algorithm = proposed.front();
    if (timed.empty()) return;
    Proposal best = fastest_of(timed);
    if (best.time > kWorthLoading) {
        const Proposal* const known = loaded.among(timed, best.time, plan.choice.shape);
        best = known != nullptr ? *known : fastest_of(trial.loaded_times(timed, best.time));
        if (known == nullptr) loaded.add(plan.choice.shape, best);
    }
    plan.algorithm = best.algorithm;
    plan.choice.time = best.time;
}

void check_base(const void* operand, const char* name, const GemmShape& s) {
    SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(operand) % kBaseAlignment == 0,
                 fmt::format("operand {} begins at a multiple of 16 bytes: {}", name, text(s)));
}

template <class Result>
GemmShape shape_of(Transpose a_as, ConstBf16Matrix a, Transpose b_as, ConstBf16Matrix b, BasicMatrixView<Result> c,
                   Store store, ResultType result) {
    const bool ta = a_as == Transpose::kYes, tb = b_as == Transpose::kYes;
    const std::int64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns, n = tb ? b.rows : b.columns;
    SLUICE_CHECK((tb ? b.columns : b.rows) == k && c.rows == m && c.columns == n,
                 fmt::format("extents of a product agree: op(A) ({}, {}), op(B) ({}, {}), C ({}, {})", m, k,
                             tb ? b.columns : b.rows, n, c.rows, c.columns));
    return {a_as, b_as, m, n, k, a.stride, b.stride, c.stride, result, store};
}

}  // namespace

GemmShape gemm_shape(Transpose a_as, ConstBf16Matrix a, Transpose b_as, ConstBf16Matrix b, Bf16Matrix c, Store store) {
    return shape_of(a_as, a, b_as, b, c, store, ResultType::kBf16);
}
GemmShape gemm_shape(Transpose a_as, ConstBf16Matrix a, Transpose b_as, ConstBf16Matrix b, Fp32Matrix c, Store store) {
    return shape_of(a_as, a, b_as, b, c, store, ResultType::kFp32);
}

Bytes gemm_scratch_bytes(const GemmShape& s) {
    return Bytes{aligned(2 * stored_a(s).span()) + aligned(2 * stored_b(s).span()) +
                 bytes_of(s.result) * stored_c(s).span()};
}

struct Gemms::State {
    std::int32_t multiprocessors = 0;
    Handle handle;
    DeviceMemory workspace;
    std::map<GemmShape, Plan> plans;
    LoadedChoices loaded;

    void run(const GemmShape& s, const Operands& at, Stream stream) const {
        const auto found = plans.find(s);
        SLUICE_CHECK(found != plans.end(), "prepared before it is run: " + text(s));
        check_base(at.a, "A", s), check_base(at.b, "B", s), check_base(at.c, "C", s);
        const cublasStatus_t status = launch(handle.get(), found->second, at, workspace.bytes().data(), stream);
        if (status != CUBLAS_STATUS_SUCCESS)  // the text allocates
            check_cublas(status, "cublasLtMatmul, " + text(s) + ", " + found->second.choice.algorithm);
    }
};

Gemms::Gemms(int multiprocessors) : state_(std::make_unique<State>()) {
    state_->multiprocessors = multiprocessors;
    cublasLtHandle_t handle = nullptr;
    check_cublas(cublasLtCreate(&handle), "cublasLtCreate");
    state_->handle.reset(handle);
    state_->workspace = DeviceMemory(Bytes{kWorkspaceBytes}, "the workspace of products");
}
Gemms::~Gemms() = default;

void Gemms::prepare(const GemmShape& s, Stream stream, std::span<std::byte> scratch) {
    if (state_->plans.contains(s)) return;
    SLUICE_CHECK(s.m >= 1 && s.n >= 1 && s.k >= 1, "a product has extents: " + text(s));
    Plan plan{operation(s, state_->multiprocessors), {}, s.store == Store::kAdd ? 1.0F : 0.0F, {s, "", {}}};
    const std::vector<cublasLtMatmulAlgo_t> proposed = proposals(state_->handle.get(), plan.operation, s);
    plan.algorithm = proposed.front();
    if (static_cast<std::int64_t>(scratch.size()) >= gemm_scratch_bytes(s).value) {
        const Operands at = lay_out(s, scratch, stream);
        take_fastest(state_->handle.get(), plan, proposed, at, state_->workspace.bytes().data(), stream,
                     state_->loaded);
    }
    plan.choice.algorithm = text(plan.algorithm);
    state_->plans.emplace(s, std::move(plan));
}

void Gemms::run(Stream stream, Transpose a_as, ConstBf16Matrix a, Transpose b_as, ConstBf16Matrix b, Bf16Matrix c,
                Store store) {
    state_->run(gemm_shape(a_as, a, b_as, b, c, store), {a.data, b.data, c.data}, stream);
}
void Gemms::run(Stream stream, Transpose a_as, ConstBf16Matrix a, Transpose b_as, ConstBf16Matrix b, Fp32Matrix c,
                Store store) {
    state_->run(gemm_shape(a_as, a, b_as, b, c, store), {a.data, b.data, c.data}, stream);
}

std::vector<GemmChoice> Gemms::choices() const {
    std::vector<GemmChoice> all;
    for (const auto& [shape, plan] : state_->plans) all.push_back(plan.choice);
    return all;
}

std::string cublas_description() {
    const std::size_t version = cublasLtGetVersion();
    return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace sluice::cuda

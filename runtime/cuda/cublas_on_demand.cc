// cuBLASLt's functions, as its header declares them, in place of linking with it: the library takes more than half a
// second to load, which every command would pay, those too that never touch a GPU. The first call of one loads it.
#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "base/error.h"

namespace {

// Never unloaded: handles outlive any scope that could do it.
void* library() {
    static void* const loaded = [] {
        const std::string name = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
        if (void* const found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
        throw sluice::EnvironmentError(fmt::format("cuBLASLt cannot be loaded: {}", dlerror()));
    }();
    return loaded;
}

template <class Function>
Function* find(const char* name) {
    if (void* const found = dlsym(library(), name)) return reinterpret_cast<Function*>(found);
    throw sluice::EnvironmentError(
        fmt::format("cuBLASLt is another version than this was built for: it has no {}", name));
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): a result, a name, parameters and arguments are what they are.
#define SLUICE_ON_DEMAND(Result, name, parameters, arguments)      \
    Result name parameters {                                       \
        static auto* const function = find<decltype(name)>(#name); \
        return function arguments;                                 \
    }
// NOLINTEND

extern "C" {

SLUICE_ON_DEMAND(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle), (handle))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle), (handle))
SLUICE_ON_DEMAND(const char*, cublasLtGetStatusName, (cublasStatus_t status), (status))
SLUICE_ON_DEMAND(size_t, cublasLtGetVersion, (), ())
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatmul,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, const void* alpha, const void* a,
                  cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                  const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                  const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes, cudaStream_t stream),
                 (handle, matmul, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm, workspace,
                  workspace_bytes, stream))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,
                 (const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                  size_t bytes, size_t* written),
                 (algorithm, attribute, value, bytes, written))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a,
                  cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                  cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t results[],
                  int* found),
                 (handle, matmul, a, b, c, d, preference, most, results, found))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatmulDescCreate,
                 (cublasLtMatmulDesc_t * matmul, cublasComputeType_t compute, cudaDataType_t scale),
                 (matmul, compute, scale))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t matmul), (matmul))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatmulDescSetAttribute,
                 (cublasLtMatmulDesc_t matmul, cublasLtMatmulDescAttributes_t attribute, const void* value,
                  size_t bytes),
                 (matmul, attribute, value, bytes))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference),
                 (preference))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference), (preference))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,
                 (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                  const void* value, size_t bytes),
                 (preference, attribute, value, bytes))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatrixLayoutCreate,
                 (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t stride),
                 (layout, type, rows, columns, stride))
SLUICE_ON_DEMAND(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))

}  // extern "C"

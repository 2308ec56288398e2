#include "runtime/cuda/check.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

#include "base/error.h"

namespace sluice::cuda {

void check(int cuda_error, std::string_view what) {
    const auto error = static_cast<cudaError_t>(cuda_error);
    if (error == cudaSuccess) return;
    throw EnvironmentError(
        fmt::format("{}: CUDA says: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error)));
}

void check_cublas(int status, std::string_view what) {
    const auto code = static_cast<cublasStatus_t>(status);
    if (code == CUBLAS_STATUS_SUCCESS) return;
    throw EnvironmentError(fmt::format("{}: cuBLASLt says: {}", what, cublasLtGetStatusName(code)));
}

void check_cudnn(int status, std::string_view what) {
    const auto code = static_cast<cudnnStatus_t>(status);
    if (code == CUDNN_STATUS_SUCCESS) return;
    char detail[512] = {};
    cudnnGetLastErrorString(detail, sizeof detail);
    throw EnvironmentError(fmt::format("{}: cuDNN says: {} ({})", what, cudnnGetErrorString(code), detail));
}

void check_launch(std::string_view kernel) { check(cudaPeekAtLastError(), kernel); }

}  // namespace sluice::cuda

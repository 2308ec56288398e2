// The one place where return codes of CUDA and its libraries become errors.
#pragma once

#include <string_view>

namespace sluice::cuda {

// Throws EnvironmentError "what: reason" unless the code is success. Codes are those of the runtime API (cudaError_t),
// of cuBLAS and of cuDNN, as integers.
void check(int cuda_error, std::string_view what);
void check_cublas(int status, std::string_view what);
void check_cudnn(int status, std::string_view what);

// The error of the kernel launched last, if there was one.
void check_launch(std::string_view kernel);

}  // namespace sluice::cuda

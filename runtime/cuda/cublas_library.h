// cuBLASLt, loaded when the first product needs it: loading takes the better part of a second, which commands that
// never touch a GPU should not pay.
#pragma once

// Opaque types of cublasLt.h stay out of our headers: the table is whole in the .cc files that include both.
namespace sluice::cuda {

struct CublasLibrary;

// Loads the library at the first call; any thread. Throws EnvironmentError where it cannot be.
const CublasLibrary& cublas();

}  // namespace sluice::cuda

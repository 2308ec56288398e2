// The one matrix product. Row-major fp32, by OpenBLAS in one thread.
//
// Repeatable: the same shapes and values give the same bits, whatever OPENBLAS_NUM_THREADS says and however many
// threads call at once. Not the same bits on another kind of CPU (OpenBLAS picks kernels by it), nor for the same rows
// in a product of another shape (it also picks them by shape).
#pragma once

#include <string>

#include "runtime/matrix_view.h"

namespace sluice {

enum class Transpose : std::uint8_t { kNo, kYes };
enum class Store : std::uint8_t {
    kOverwrite,  // beta = 0: C is not read, NaN in it changes nothing
    kAdd,        // beta = 1
};

// C = scale * op(A) op(B), or C += that. op(A) is (m, k), op(B) (k, n), C (m, n); A and B are given as they are stored.
// k = 0 gives zeros. No operand may overlap C. Every extent and stride is below 2^31 (BLAS), the number of elements
// need not be: operands that span more than 2 GiB are multiplied in several calls.
//
// A linear layer Y = X W^T, with W (out, in) as Llama and NeoX store it:
//   gemm(kNo, X, kYes, W, Y), then backward dX = gemm(kNo, dY, kNo, W), dW += gemm(kYes, dY, kNo, X).
// With W (in, out) as GPT-2 stores it: gemm(kNo, X, kNo, W, Y), dX = gemm(kNo, dY, kYes, W), dW += gemm(kYes, X, kNo,
// dY).
void gemm(Transpose transpose_a, ConstMatrixView a, Transpose transpose_b, ConstMatrixView b, MatrixView c,
          Store store = Store::kOverwrite, float scale = 1);

// The library that makes the products, for provenance: name, version and the kernels it has chosen for this CPU.
std::string blas_description();

}  // namespace sluice

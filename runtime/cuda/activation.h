// SwiGLU and GELU, elementwise on bf16, arithmetic in fp32: runtime/cpu/swiglu.h and gelu.h.
#pragma once

#include "runtime/cpu/gelu.h"
#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

// gate, up, y: (tokens, ffn). y is overwritten.
void swiglu_forward(Stream, ConstBf16Matrix gate, ConstBf16Matrix up, Bf16Matrix y);
// dgate and dup are overwritten. With `y` (data not null) the forward's output is made again there, in the same pass
// and to the same bits; it may be dy itself.
void swiglu_backward(Stream, ConstBf16Matrix dy, ConstBf16Matrix gate, ConstBf16Matrix up, Bf16Matrix dgate,
                     Bf16Matrix dup, Bf16Matrix y);

void gelu_forward(Stream, GeluForm, ConstBf16Matrix x, Bf16Matrix y);
void gelu_backward(Stream, GeluForm, ConstBf16Matrix dy, ConstBf16Matrix x, Bf16Matrix dx, Bf16Matrix y);

}  // namespace sluice::cuda

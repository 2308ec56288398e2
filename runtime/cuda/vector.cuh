// Neighbouring elements of a row as one access of up to 16 bytes, and as floats. The rest of a row's arithmetic never
// sees how its elements lie in memory.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

// kWidth elements of bf16 or fp32 in registers, as they are in memory: what was loaded keeps as few registers as it
// can until it is used, so that many loads can be under way.
template <class Element, int kWidth>
struct Vector {
    static constexpr int kBytes = static_cast<int>(sizeof(Element)) * kWidth;
    static constexpr int kWords = (kBytes + 3) / 4;
    unsigned words[kWords];

    __device__ float operator[](int i) const {
        if constexpr (sizeof(Element) == 4)
            return __uint_as_float(words[i]);
        else
            return __uint_as_float(i % 2 == 0 ? words[i / 2] << 16 : words[i / 2] & 0xffff0000U);
    }
};

// Requires: `from` is aligned to the whole vector.
template <int kWidth, class Element>
__device__ Vector<std::remove_const_t<Element>, kWidth> load(Element* from) {
    Vector<std::remove_const_t<Element>, kWidth> v;
    if constexpr (v.kBytes == 2) {
        v.words[0] = *reinterpret_cast<const unsigned short*>(from);
    } else if constexpr (v.kBytes == 4) {
        v.words[0] = *reinterpret_cast<const unsigned*>(from);
    } else if constexpr (v.kBytes == 8) {
        const uint2 raw = *reinterpret_cast<const uint2*>(from);
        v.words[0] = raw.x, v.words[1] = raw.y;
    } else {
        static_assert(v.kBytes % 16 == 0);
#pragma unroll
        for (int i = 0; i < v.kWords; i += 4) {
            const uint4 raw = reinterpret_cast<const uint4*>(from)[i / 4];
            v.words[i] = raw.x, v.words[i + 1] = raw.y, v.words[i + 2] = raw.z, v.words[i + 3] = raw.w;
        }
    }
    return v;
}

// __stwb is an ordinary store that the compiler leaves whole; of structs it makes four stores of a word here and there.
template <class Element, int kWidth>
__device__ void store(Element* to, const Vector<Element, kWidth>& v) {
    if constexpr (v.kBytes == 2) {
        *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(v.words[0]);
    } else if constexpr (v.kBytes == 4) {
        *reinterpret_cast<unsigned*>(to) = v.words[0];
    } else if constexpr (v.kBytes == 8) {
        __stwb(reinterpret_cast<uint2*>(to), make_uint2(v.words[0], v.words[1]));
    } else {
        static_assert(v.kBytes % 16 == 0);
#pragma unroll
        for (int i = 0; i < v.kWords; i += 4)
            __stwb(reinterpret_cast<uint4*>(to) + i / 4,
                   make_uint4(v.words[i], v.words[i + 1], v.words[i + 2], v.words[i + 3]));
    }
}

// To the nearest, ties to even.
template <class Element, int kWidth>
__device__ Vector<Element, kWidth> rounded(const float (&values)[kWidth]) {
    Vector<Element, kWidth> v;
    if constexpr (sizeof(Element) == 4) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) v.words[i] = __float_as_uint(values[i]);
    } else if constexpr (kWidth == 1) {
        v.words[0] = __bfloat16_as_ushort(__float2bfloat16_rn(values[0]));
    } else {
#pragma unroll
        for (int i = 0; i < v.kWords; ++i) {
            const __nv_bfloat162 pair = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
            v.words[i] = static_cast<unsigned>(__bfloat16_as_ushort(pair.x)) |
                         static_cast<unsigned>(__bfloat16_as_ushort(pair.y)) << 16;
        }
    }
    return v;
}

// A row cut into vectors whatever its width and alignment: elements from `left` on are zeros when loaded and are not
// stored. kAligned promises that the address is aligned and that `left` is a multiple of kWidth, or not above 0.
// Kernels that sum along a row take it in these pieces in both cases, so that the sum's bits depend on its width alone.
template <bool kAligned, int kWidth, class Element>
__device__ Vector<std::remove_const_t<Element>, kWidth> load_part(Element* from, std::int64_t left) {
    Vector<std::remove_const_t<Element>, kWidth> v{};
    if constexpr (kAligned) {
        if (left > 0) v = load<kWidth>(from);
    } else {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            if (i >= left) continue;
            const unsigned word = load<1>(from + i).words[0];
            if constexpr (sizeof(Element) == 4)
                v.words[i] = word;
            else
                v.words[i / 2] |= word << (i % 2 * 16);
        }
    }
    return v;
}

template <bool kAligned, class Element, int kWidth>
__device__ void store_part(Element* to, const Vector<Element, kWidth>& v, std::int64_t left) {
    if constexpr (kAligned) {
        if (left > 0) store(to, v);
    } else {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            if (i >= left) continue;
            if constexpr (sizeof(Element) == 4)
                store(to + i, Vector<Element, 1>{{v.words[i]}});
            else
                store(to + i, Vector<Element, 1>{{v.words[i / 2] >> (i % 2 * 16) & 0xffffU}});
        }
    }
}

// Whether a row, or every row of a matrix, may be read in whole vectors: on the host, before a kernel is chosen.
template <int kWidth, class Element>
bool in_whole_vectors(Element* values, std::int64_t count) {
    return count % kWidth == 0 && reinterpret_cast<std::uintptr_t>(values) % (kWidth * sizeof(Element)) == 0;
}
template <int kWidth, class Element>
bool in_whole_vectors(BasicMatrixView<Element> m) {
    return in_whole_vectors<kWidth>(m.data, m.columns) && (m.stride % kWidth == 0 || m.rows == 1);
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace sluice::cuda

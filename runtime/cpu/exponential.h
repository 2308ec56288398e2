// exp for fp32 that compilers vectorise, the same bits in vector and scalar code and on every machine (std::exp is
// neither). Inline, since it stands in inner loops.
#pragma once

#include <bit>
#include <cstdint>

namespace sluice {

// Within 2 units in the last place for results in the normal range; exactly 1 at 0; 0 below -87.3 (results under the
// smallest normal number are flushed) and at minus infinity; infinity above 88.7; NaN for NaN.
//
// Cody and Waite: x = n ln 2 + r with |r| <= ln(2) / 2, ln 2 in two parts so that n * high is exact; then the
// polynomial of degree 5 of Cephes' expf, and 2^n through the exponent bits, in two factors so that n = 128 does not
// overflow.
inline float exponential(float x) {
    const float low = -87.33654F, high = 88.72283F;
    const float clamped = x < low ? low : (x > high ? high : x);
    const float magic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
    const float n = (clamped * 1.44269504F + magic) - magic;
    const float r = (clamped - n * 0.693359375F) - n * -2.12194440e-4F;
    float p = 1.9875691500e-4F;
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1.0F;
    const auto exponent = static_cast<std::int32_t>(n == n ? n : 0.0F);
    const std::int32_t half = exponent >> 1;
    const auto power = [](std::int32_t e) { return std::bit_cast<float>((e + 127) << 23); };
    const float value = p * power(half) * power(exponent - half);
    return x < low ? 0.0F : (x > high ? __builtin_inff() : value);
}

}  // namespace sluice

#include "runtime/cpu/rotary_table.h"

#include <cmath>

#include "base/error.h"

namespace sluice {
namespace {

void check_shape(const RotaryShape& shape) {
    SLUICE_CHECK(shape.rotary_dim >= 0 && shape.rotary_dim % 2 == 0 && shape.rotary_dim <= shape.head_dim,
                 "rotary_dim is even and within the head");
}

}  // namespace

Bytes rotary_table_bytes(const RotaryShape& shape, Tokens length) {
    return Bytes{length.value * shape.rotary_dim * static_cast<std::int64_t>(sizeof(float))};
}

void fill_rotary_table(const RotaryShape& shape, Tokens begin, Tokens length, std::span<float> table) {
    check_shape(shape);
    SLUICE_CHECK(std::ssize(table) == length.value * shape.rotary_dim, "the rotary table has the stated size");
    const std::int64_t half = shape.rotary_dim / 2;
    for (std::int64_t j = 0; j < half; ++j) {
        const double frequency = std::pow(shape.theta, -2.0 * static_cast<double>(j) / static_cast<double>(2 * half));
        for (std::int64_t t = 0; t < length.value; ++t) {
            const double angle = static_cast<double>(begin.value + t) * frequency;
            float* row = table.data() + t * shape.rotary_dim;
            row[j] = static_cast<float>(std::cos(angle));
            row[half + j] = static_cast<float>(std::sin(angle));
        }
    }
}

void rotate(const RotaryShape& shape, std::span<const float> table, RotationSense sense, MatrixView x) {
    check_shape(shape);
    SLUICE_CHECK(x.columns % shape.head_dim == 0 && std::ssize(table) == x.rows * shape.rotary_dim,
                 "rows of the rotary table are tokens, columns are whole heads");
    const std::int64_t half = shape.rotary_dim / 2;
    const float sign = sense == RotationSense::kForward ? 1.0F : -1.0F;
    for (std::int64_t t = 0; t < x.rows; ++t) {
        const float* cosine = table.data() + t * shape.rotary_dim;
        const float* sine = cosine + half;
        for (std::int64_t h = 0; h < x.columns; h += shape.head_dim) {
            float *first = x.row(t) + h, *second = first + half;
            for (std::int64_t j = 0; j < half; ++j) {
                const float a = first[j], b = second[j], s = sign * sine[j];
                first[j] = a * cosine[j] - b * s;
                second[j] = b * cosine[j] + a * s;
            }
        }
    }
}

}  // namespace sluice

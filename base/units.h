// Quantities with their unit in the type. A function that wants seconds cannot be handed bytes.
//
//   Seconds t = 4_GiB / BytesPerSecond{25e9};      // Bytes / BytesPerSecond -> Seconds
//   double share = t / step;                       // same unit -> plain ratio
//
// Integer quantities (Bytes, Tokens) are exact; rates, FLOPs and seconds are doubles. MiB = 2^20 bytes, MB = 10^6
// bytes.
#pragma once

#include <compare>
#include <cstdint>

namespace sluice {

template <class Unit, class Rep>
struct Quantity {
    using rep = Rep;
    Rep value{};

    constexpr Quantity() = default;
    constexpr explicit Quantity(Rep v) : value(v) {}

    friend constexpr auto operator<=>(Quantity, Quantity) = default;
    constexpr Quantity operator-() const { return Quantity{-value}; }
    constexpr Quantity& operator+=(Quantity o) { return value += o.value, *this; }
    constexpr Quantity& operator-=(Quantity o) { return value -= o.value, *this; }
    friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity{a.value + b.value}; }
    friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity{a.value - b.value}; }
    friend constexpr Quantity operator*(Quantity a, Rep s) { return Quantity{a.value * s}; }
    friend constexpr Quantity operator*(Rep s, Quantity a) { return Quantity{a.value * s}; }
    friend constexpr Quantity operator/(Quantity a, Rep s) { return Quantity{a.value / s}; }
    // Ratio of two quantities of one unit, always a double.
    friend constexpr double operator/(Quantity a, Quantity b) {
        return static_cast<double>(a.value) / static_cast<double>(b.value);
    }
};

using Bytes = Quantity<struct BytesUnit, std::int64_t>;
using Tokens = Quantity<struct TokensUnit, std::int64_t>;
using Flops = Quantity<struct FlopsUnit, double>;      // floating-point operations, a multiply-add counts 2
using Seconds = Quantity<struct SecondsUnit, double>;  // model and trace time
using BytesPerSecond = Quantity<struct BytesPerSecondUnit, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondUnit, double>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds{static_cast<double>(b.value) / r.value}; }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds{f.value / r.value}; }
constexpr BytesPerSecond operator/(Bytes b, Seconds t) {
    return BytesPerSecond{static_cast<double>(b.value) / t.value};
}
constexpr FlopsPerSecond operator/(Flops f, Seconds t) { return FlopsPerSecond{f.value / t.value}; }
constexpr double operator*(BytesPerSecond r, Seconds t) { return r.value * t.value; }  // bytes, possibly fractional
constexpr Flops operator*(FlopsPerSecond r, Seconds t) { return Flops{r.value * t.value}; }

constexpr Bytes operator""_B(unsigned long long v) { return Bytes{static_cast<std::int64_t>(v)}; }
constexpr Bytes operator""_KiB(unsigned long long v) { return Bytes{static_cast<std::int64_t>(v) << 10}; }
constexpr Bytes operator""_MiB(unsigned long long v) { return Bytes{static_cast<std::int64_t>(v) << 20}; }
constexpr Bytes operator""_GiB(unsigned long long v) { return Bytes{static_cast<std::int64_t>(v) << 30}; }

// Smallest multiple of `step` that is >= `amount`. Requires: amount >= 0, step > 0.
constexpr Bytes round_up(Bytes amount, Bytes step) {
    return Bytes{(amount.value + step.value - 1) / step.value * step.value};
}

}  // namespace sluice

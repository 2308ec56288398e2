// One block of memory, mapped once, with an unmapped page on both sides: what runs over its end stops there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/units.h"

namespace sluice {

inline constexpr Bytes kArenaAlignment = 64_B;

// Anonymous pages, zero until first written, taken from the machine as they are touched. The end of the arena lies
// against the upper guard page, up to alignment, so that an overrun of 64 bytes is caught; an underrun is caught within
// a page. Movable; spans stay valid.
class Arena {
public:
    Arena() = default;
    // `name` is for messages: "device arena of rank 3". Throws EnvironmentError when the machine refuses. `bytes` >= 0.
    Arena(Bytes bytes, const std::string& name);
    ~Arena();
    Arena(Arena&& other) noexcept;
    Arena& operator=(Arena&& other) noexcept;

    // Exactly the bytes asked for. The first one is aligned to kArenaAlignment.
    std::span<std::byte> bytes() const { return bytes_; }

private:
    std::byte* mapping_ = nullptr;  // with guard pages
    std::size_t mapped_ = 0;
    std::span<std::byte> bytes_;
};

// Throws EnvironmentError when `needed` is more than the machine has available now (MemAvailable): pages are taken only
// as they are touched, so a mapping that is too large would succeed and the process be killed later. `what` names it.
void require_memory(Bytes needed, const std::string& what);

// fp32 signalling NaNs with a payload of their own: arithmetic on them gives NaN, and a copy of them is recognised.
inline constexpr std::uint32_t kPoison = 0x7fa5a5a5U;
void poison(std::span<std::byte> bytes);
bool is_poison(float value);  // this pattern, also after arithmetic has made it quiet

}  // namespace sluice

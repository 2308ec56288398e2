// A fault on purpose: one op fails or never ends, so that it can be seen that the run then does.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.h"

namespace sluice {

struct Fault {
    enum class Kind : std::uint8_t {
        kThrow,  // the op fails with an error
        kStall,  // the op never ends, and what runs it does not hear that the run is over
    };
    Kind kind = Kind::kThrow;
    std::uint64_t step = 1;  // of this process's run, from 1
    OpId op{};
};

inline bool strikes(const std::optional<Fault>& fault, std::uint64_t step, OpId op) {
    return fault && fault->op == op && fault->step == step;
}

// What the error of kThrow says after it has named the op.
inline constexpr const char* kFailsOnPurpose = "fails on purpose (--fault)";

}  // namespace sluice

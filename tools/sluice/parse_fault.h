// What --fault asks for: throw:STEP:OP or stall:STEP:OP.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/fault.h"
#include "schedule/schedule.h"

namespace sluice {

// Throws InputError in one line where the text is another, or the step is none of 1 to `steps`.
Fault parse_fault(std::string_view text, std::int64_t steps);

// Throws InputError where the schedule has no such op, or `alone`, the only rank that runs, is not the op's.
void expect_op_of(const Fault&, const Schedule&, std::optional<Rank> alone);

}  // namespace sluice

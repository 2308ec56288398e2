// What the writer and the reader of the binary form agree on, besides schedule.proto.
#pragma once

#include <string_view>

#include "base/units.h"

namespace sluice {

inline constexpr std::string_view kScheduleMagic = "SLSCHED\n";
inline constexpr Bytes kMaxScheduleRecord = 64_MiB;

}  // namespace sluice

// Quantities as people write them, for messages and reports. Locale-independent, exact enough to be read, never parsed.
#pragma once

#include <string>

#include "base/units.h"

namespace sluice {

std::string format(Bytes);           // "512 B", "4.00 MiB", "80.0 GiB"
std::string format(Seconds);         // "12.3 us", "849 s"
std::string format(BytesPerSecond);  // "25.0 GB/s"
std::string format(FlopsPerSecond);  // "312 TFLOP/s"

}  // namespace sluice

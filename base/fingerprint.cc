#include "base/fingerprint.h"

#include <fmt/format.h>

namespace sluice {

std::string fingerprint_hex(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace sluice

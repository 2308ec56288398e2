// What `sluice compare` prints, as text and as JSON (docs/command.md is the contract of the keys).
#pragma once

#include <string>

#include "traces/trace.h"
#include "validation/compare.h"

namespace sluice {

// `measured` is the median step.
std::string comparison_text(const Comparison&, const Trace& predicted, const Trace& measured);
std::string comparison_json(const Comparison&, const Trace& predicted, const Trace& measured);

}  // namespace sluice

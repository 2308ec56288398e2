// Spelling suggestions for unknown names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

// The candidate closest to `name` by edit distance, or "" when none is near enough to be what was meant
// (distance above a third of the length, at least 2). Ties go to the earlier candidate.
std::string nearest_name(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace sluice

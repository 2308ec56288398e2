// Where infinity or NaN first stands, so that a run can name op, tensor and place, not only "loss is NaN".
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

std::optional<std::int64_t> first_non_finite(std::span<const float> values);

}  // namespace sluice

// What the processes of a run send each other between steps, as bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/decoder/session.h"
#include "runtime/step_times.h"
#include "schedule/schedule.h"

namespace sluice {

std::vector<std::byte> encode_findings(std::span<const StepFindings> findings);
std::vector<StepFindings> decode_findings(std::span<const std::byte> bytes);

// Times of the ranks' ops. Reading adds `offset` (nanoseconds) to all of them and puts them among the others. Throws
// InputError for ops that there are not.
std::vector<std::byte> encode_times(const Schedule& schedule, const StepTimes& times, std::span<const Rank> ranks);
void read_times(std::span<const std::byte> bytes, const Schedule& schedule, std::int64_t offset, StepTimes& times);

std::vector<std::byte> encode_parameter(const WholeParameter& parameter);
// Adds what other ranks hold of a parameter: every element is 0 but with its holder.
void merge_parameter(std::span<const std::byte> bytes, WholeParameter& whole);

std::vector<std::byte> encode_names(std::span<const std::string> names);
std::vector<std::string> decode_names(std::span<const std::byte> bytes);

}  // namespace sluice

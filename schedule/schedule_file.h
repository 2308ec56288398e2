// The binary file form (Protocol Buffers, schedule.proto) and the reader that accepts either form.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "schedule/schedule.h"

namespace sluice {

// Same schedule, same bytes.
std::string to_binary(const Schedule& schedule);

// Throws InputError "origin: byte N: ..." naming where the bad record begins: truncated, trailing bytes, not a
// schedule, absent work, values outside their enums. Takes memory in proportion to `bytes`. Call verify() on the
// result.
Schedule parse_binary_schedule(std::string_view bytes, std::string_view origin);

// Reads either form, told apart by the first bytes. Throws InputError.
Schedule read_schedule(const std::filesystem::path& path);

// ".txt": the text form, anything else binary. Throws EnvironmentError.
void write_schedule(const std::filesystem::path& path, const Schedule& schedule);

}  // namespace sluice

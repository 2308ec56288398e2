// What the small frames of a job carry: a text, a time, how far a process is. Reading throws InputError where the
// payload is another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/step_progress.h"

namespace sluice {

std::vector<std::byte> encode_text(const std::string& text);
std::string decode_text(std::span<const std::byte> payload, std::size_t most);  // bytes

std::vector<std::byte> encode_time(std::int64_t nanoseconds);  // of steady_now()
std::int64_t decode_time(std::span<const std::byte> payload);

std::vector<std::byte> encode(const StepProgress& progress);
StepProgress decode_progress(std::span<const std::byte> payload);

}  // namespace sluice

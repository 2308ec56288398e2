// The trace file format (Protocol Buffers, trace.proto): a header and chunks, so that neither side holds two copies.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string_view>

#include "traces/trace.h"

namespace sluice {

// Same trace, same bytes. Throws EnvironmentError.
void write_trace(const std::filesystem::path& path, const Trace& trace);
void write_trace(std::ostream& out, const Trace& trace);

// Throws InputError on anything that is not a whole, consistent trace: truncated, indices out of range, an end before
// its begin, NaN. Never allocates more than a small multiple of the file's size.
Trace read_trace(const std::filesystem::path& path);
Trace parse_trace(std::string_view bytes, std::string_view origin);

}  // namespace sluice

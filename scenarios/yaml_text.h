// Pieces of the files that we write. Private to scenarios/.
#pragma once

#include <string>
#include <string_view>

#include "base/units.h"
#include "scenarios/file_origin.h"

namespace sluice {

// Any text as a double-quoted YAML scalar of one line; control characters become spaces.
std::string yaml_text(std::string_view text);

// Four significant digits without an exponent: "97.4", "0.00213", "12340". Requires: finite, not negative.
std::string decimal(double value);

std::string yaml_quantity(Bytes);           // "64 MiB", exact
std::string yaml_quantity(Seconds);         // "3.1 us"
std::string yaml_quantity(BytesPerSecond);  // "11.2 GB/s"
std::string yaml_quantity(FlopsPerSecond);  // "97.4 GFLOP/s"

// name, comment and sources: how both kinds of file begin.
std::string file_head(std::string_view name, const FileOrigin&);
// "source: ID" and the note where there is one, with `separator` between: ", " in a flow mapping.
std::string origin_text(const FileOrigin&, std::string_view key, std::string_view separator);

}  // namespace sluice

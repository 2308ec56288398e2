// The inverse of reading: a calibration as a file that the strict reader accepts.
#pragma once

#include <iosfwd>

#include "scenarios/calibration.h"
#include "scenarios/file_origin.h"

namespace sluice {

// Rates, times and factors with four significant digits, sizes and counts exactly: what is read back and written again
// is the same text. Same input, same bytes. Attention points with fewer keys than queries are left out, as in files by
// hand. Requires: tables as read_calibration() gives them.
void write_calibration(std::ostream& out, const Calibration&, const FileOrigin&);

}  // namespace sluice

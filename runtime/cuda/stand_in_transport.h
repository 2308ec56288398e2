// A transport without partners, for one rank of a schedule alone: runtime/stand_in.h says what takes their place.
#pragma once

#include "base/units.h"
#include "runtime/cuda/transport.h"
#include "runtime/stand_in.h"

namespace sluice::cuda {

// `sequence` is the scenario's length.
TransportMaker stand_in_transport(StandIns stand_ins, Tokens sequence);

}  // namespace sluice::cuda

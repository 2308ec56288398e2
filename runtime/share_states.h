// ZeRO 1: what each replica of a rank steps of the parameters that all of them hold.
#pragma once

#include <cstdint>

#include "runtime/parameter_layout.h"

namespace sluice {

// Cuts the layout into runs, of slices side by side that the same ranks hold, and every run into shares
// (member_share.h): so ranks that hold a parameter together step the same elements of it. A table of the vocabulary is
// a run by itself, since with tied embeddings it stands beside other parameters on the last stage than on the first.
void share_states(ParameterLayout& layout, std::int64_t replica, std::int64_t replicas);

}  // namespace sluice

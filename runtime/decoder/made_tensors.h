// Which ops make which of a layer's saved tensors.
#pragma once

#include "schedule/schedule.h"

namespace sluice {

// Does an op of this function write all of the tensor, in forward or when it is made again?
bool makes(Function function, Tensor tensor);

}  // namespace sluice

// Functions of the driver, as the runtime finds them: nothing is linked with it, since a machine without a GPU lacks
// it.
#pragma once

namespace sluice::cuda {

// As CUDA `version` (12040: 12.4) declares it; null where the driver is older. Throws EnvironmentError without a
// driver.
void* find_driver_function(const char* name, unsigned version);

}  // namespace sluice::cuda

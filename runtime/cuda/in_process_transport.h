// The transport between ranks that are threads of one process: on parts of one GPU, or on GPUs that reach each other's
// memory. stream_communicator.h says how.
#pragma once

#include "runtime/cuda/stream_work.h"
#include "runtime/cuda/transport.h"

namespace sluice::cuda {

// All ranks of the schedule have to be local: InputError names the first call with a partner elsewhere. The copies and
// sums of a call run on its stream, so on the caller's part of the GPU.
TransportMaker in_process_transport();

// The same on other work than a GPU's, for tests.
std::vector<std::unique_ptr<Transport>> in_process_transports(const TransportParts&, std::shared_ptr<StreamWork>);

}  // namespace sluice::cuda

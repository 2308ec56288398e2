// Messages between GPUs, of one process or of several, through NCCL.
//
// Every group that is used and every ordered pair of ranks that send has a communicator of its own, made before the
// first step in one order everywhere. So what lies on different lanes never waits for each other in NCCL, and a send
// and a receive at the same time are two calls on two streams.
//
// Why calls cannot block each other for ever: the rank's thread issues in the order of its program, which is the order
// of its ops in one order of all ops (runtime/issue_order.h has the argument); every rank has a GPU to itself, so
// kernels that wait for a partner keep nothing from running but what comes after them on their stream.
#pragma once

#include "runtime/cuda/stream_flags.h"
#include "runtime/cuda/transport.h"
#include "runtime/nccl/nccl_functions.h"
#include "runtime/rendezvous/rendezvous.h"

namespace sluice::cuda {

// Compares the calls of all ranks and makes the communicators; throws where they differ, where two local ranks have one
// GPU, and the verdict of a job that fails meanwhile. Refers to all. `flags` for the gates of receives; null: none.
TransportMaker nccl_transport(Rendezvous& job, const NcclFunctions& nccl, const StreamFlags* flags);

}  // namespace sluice::cuda

// Flags of streams without a GPU: what a stream would do when it comes there, the calling thread does at once.
#pragma once

#include <cstddef>

#include "runtime/cuda/stream_flags.h"

namespace sluice::cuda {

const StreamFlags& fake_stream_flags();

void reset_fake_stream_flags();
std::size_t fake_streams_waiting();
std::size_t fake_stream_waits();  // that ever were
std::size_t fake_pages_pinned();

}  // namespace sluice::cuda

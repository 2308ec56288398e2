// Collectives between rank threads of one process: two threads that copy and add each other's memory.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "scenarios/message_figure.h"

namespace sluice {

// Of two ranks: all-gather and reduce-scatter of next to nothing, and of whole tensors of these sizes.
std::vector<MessageFigure> time_collectives(std::span<const Bytes> sizes, Seconds for_each);

}  // namespace sluice

// Times messages between ranks over a transport, on all ranks at once. Knows no CUDA: what a rank's clock and its other
// work are is given, so that tests need no GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/units.h"
#include "runtime/cuda/transport.h"
#include "runtime/run_monitor.h"
#include "scenarios/message_figure.h"

namespace sluice::cuda {

// What one rank measures with. The functions are called on a thread of the rank.
struct MessageRank {
    Transport* transport = nullptr;
    Stream stream = nullptr, receiving = nullptr;  // of collectives and sends; of receives
    std::span<std::byte> out, in;                  // device memory, each of the largest size
    std::function<void()> enter;                   // before anything else on a thread
    std::function<void()> start;                   // of the clock of both streams
    std::function<Seconds()> stop;                 // waits for both
    std::function<void(Seconds)> load;             // puts other work beside them, for at least so long; may be empty
    std::function<void()> unload;                  // waits until it has ended
};

// Transports for time_messages() are made for this schedule: its one group is of all ranks, and each sends to the next.
Schedule message_schedule(std::size_t ranks);

// Sizes are of whole tensors, as in MessageFigure; parts of all ranks are whole multiples of 256 bytes, so the figures'
// sizes are a little larger. A figure is the median of five samples of equally many calls that follow one another, each
// the mean over ranks, as nccl-tests has it; about `for_each` in all. `loaded`: beside what `load` puts there.
// Requires: two ranks or more; buffers that hold message_bytes(). Throws what the first rank that failed threw.
std::vector<MessageFigure> time_messages(std::span<const MessageRank> ranks, std::span<const Bytes> sizes,
                                         Seconds for_each, bool loaded, RunMonitor& monitor);

Bytes message_bytes(Bytes size, std::size_t ranks);  // what a figure of this size moves

// Calls `work(k)` for every rank k, on threads of their own; a failure of one ends what others wait for in transports.
void on_all_ranks(std::size_t ranks, RunMonitor& monitor, const std::function<void(std::size_t)>& work);

}  // namespace sluice::cuda

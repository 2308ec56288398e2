// What an op's time is made of, by op class: the classes of kernels inside a compute op, and one class for every other
// kind of work. The same names in every report of this folder.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/schedule.h"
#include "traces/trace.h"
#include "validation/step_chain.h"

namespace sluice {

// Time of a compute op that none of its kernels covers: launches, dispatch.
inline constexpr std::string_view kBetweenKernels = "between_kernels";

// Cuts events into pieces of one class each.
//   compute      a piece per kernel span, by its label; what they leave open is "between_kernels". Where kernels are
//   not
//                to be told apart, and in ops without any, "compute".
//   others       "copy_out", "copy_in", "send", "receive", and "collective" or, with a schedule, its kind: "all_gather"
//   ...
// Refers to the trace and the schedule.
class OpPieces {
public:
    OpPieces(const Trace& trace, bool kernels, const Schedule* schedule);

    // Calls `piece(class, calls, length)` in order for the part of the event that lies in [from, to]. Lengths sum to
    // that part's, exactly. `calls` is 0 for time between kernels.
    using Piece = std::function<void(std::string_view, std::uint32_t, Nanoseconds)>;
    void of(const TraceEvent& event, Nanoseconds from, Nanoseconds to, const Piece& piece) const;
    void of(const TraceEvent& event, const Piece& piece) const {
        of(event, to_nanoseconds(event.begin), to_nanoseconds(event.end), piece);
    }

    // The class of an op as a whole.
    std::string_view class_of(const TraceEvent& event) const;

private:
    const Trace& trace_;
    bool kernels_;
    const Schedule* schedule_;
    std::vector<std::size_t> first_kernel_;  // by event, and one more
};

}  // namespace sluice

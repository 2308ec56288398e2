// The error of a predicted step, shared out among op classes. The shares sum to the error, to the nanosecond.
#pragma once

#include <string>
#include <vector>

#include "validation/op_pieces.h"
#include "validation/step_chain.h"

namespace sluice {

inline constexpr std::string_view kStartGap =
    "start_gap";  // time before an op starts though all it waited for has ended
inline constexpr std::string_view kNotRecorded = "not_recorded";  // time for which the trace gives no reason

struct WaitTime {  // of a class on the chain, for one reason
    Wait wait = Wait::kNone;
    Nanoseconds predicted{}, measured{};
};

// What a class holds of the chain that the step's length is due to (step_chain.h), in both traces.
struct ErrorShare {
    std::string op_class;
    Nanoseconds predicted{}, measured{};
    Nanoseconds same_ops{};       // predicted - measured over ops that are on both chains
    std::vector<WaitTime> waits;  // summing to predicted and measured; by Wait

    Nanoseconds error() const { return predicted - measured; }
    Nanoseconds other_path() const { return error() - same_ops; }  // of ops that are on one of the chains only
};

// Largest absolute error first, then by name. The errors sum to predicted step - measured step in whole nanoseconds.
std::vector<ErrorShare> error_shares(const Trace& predicted, const OpPieces& predicted_pieces, const Trace& measured,
                                     const OpPieces& measured_pieces);

}  // namespace sluice

// What stands in for partners that a run does not have: one rank of a large schedule run alone, at its full size.
//
// Everything that the rank does itself is real. What it would be told by others is made up: a receive finds values of
// a bell curve, an all-gather the rank's own part in everybody's place, an all-to-all its own parts in place of
// theirs; a reduce-scatter keeps the rank's own part of its own sums, and sends and all-reduces leave all as it is, as
// does an all-gather of updated weights: those that other replicas would step stay what they were. So values stay
// finite and of a plausible size, and every byte that another message would write is written. The results mean nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "schedule/schedule.h"
#include "traces/trace.h"

namespace sluice {

// How long a message holds its lane. By default no longer than its bytes take to be made up.
struct StandInTime {
    Seconds lasts{};                    // at least, from its begin
    std::optional<Seconds> not_before;  // its end, from the step's begin
};

struct StandIns {
    std::vector<StandInTime> times;  // by op; empty: no message is held up

    StandInTime of(OpId op) const { return times.empty() ? StandInTime{} : times[index(op)]; }
};

// As a predicted trace of the slice says: messages last as long as there, and what comes from another stage ends no
// earlier, whenever the rank was ready for it: so the rank waits for its neighbours as it would for real.
StandIns stand_ins_from(const Schedule& slice, const Trace& predicted);

// Number i of a made-up tensor: of mean 0 and deviation 1, within 3.5, the same for the same seed.
constexpr float plausible_value(std::uint64_t seed, std::uint64_t i) {
    std::uint64_t bits = (seed + 1) * 0x9e3779b97f4a7c15U + i;  // splitmix64
    bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
    bits ^= bits >> 31U;
    const auto sum =
        static_cast<float>((bits & 0xffU) + (bits >> 8U & 0xffU) + (bits >> 16U & 0xffU) + (bits >> 24U & 0xffU));
    return (sum - 510.0F) * (1 / 147.8F);  // four bytes: mean 127.5 and deviation 73.9 each
}

// What a received tensor is multiplied by: activations are of size 1, gradients of a mean over the sequence's tokens.
float plausible_scale(Phase phase, Tokens sequence);

}  // namespace sluice

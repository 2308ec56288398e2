// A job's failure until it is a verdict: what came first, and what every process had in flight then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/rendezvous/job_member.h"

namespace sluice {

class JobFailure {
public:
    using Clock = std::chrono::steady_clock;

    // Longer messages than kLongestMessage are cut.
    JobFailure(FailureKind kind, std::string message, std::size_t processes, Clock::time_point at);

    FailureKind kind() const { return kind_; }
    const std::string& message() const { return message_; }
    Clock::duration age(Clock::time_point now) const { return now - at_; }

    // "rank 3: op 12 (rank 3, compute)"; empty: nothing. Cut.
    void report(std::uint32_t process, std::string in_flight);
    JobVerdict verdict() const;

    // What a process had in flight, cut so that a verdict has room for that of all `processes`.
    static std::string cut_in_flight(std::string text, std::size_t processes);

private:
    FailureKind kind_;
    std::string message_;
    Clock::time_point at_;
    std::vector<std::string> in_flight_;  // by process
};

}  // namespace sluice

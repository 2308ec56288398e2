#include "runtime/rendezvous/job_failure.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

constexpr std::size_t kLongestOfAll = 12000, kLeast = 40;

std::string cut(std::string text, std::size_t most) {
    constexpr std::string_view kMore = " ...";
    if (text.size() > most) text = text.substr(0, most - kMore.size()).append(kMore);
    return text;
}

}  // namespace

JobFailure::JobFailure(FailureKind kind, std::string message, std::size_t processes, Clock::time_point at)
    : kind_(kind), message_(cut(std::move(message), kLongestMessage)), at_(at), in_flight_(processes) {}

void JobFailure::report(std::uint32_t process, std::string in_flight) {
    in_flight_[process] = cut_in_flight(std::move(in_flight), in_flight_.size());
}

JobVerdict JobFailure::verdict() const {
    std::string line = message_;
    bool first = true;
    for (const std::string& text : in_flight_) {
        if (text.empty()) continue;
        line += (first ? "; in flight: " : "; ") + text;
        first = false;
    }
    return {kind_, std::move(line)};
}

std::string JobFailure::cut_in_flight(std::string text, std::size_t processes) {
    return cut(std::move(text), std::min(kLongestInFlight, kLongestOfAll / processes + kLeast));
}

}  // namespace sluice

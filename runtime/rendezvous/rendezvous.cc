#include "runtime/rendezvous/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/rendezvous/call_parcel.h"
#include "runtime/rendezvous/job_link.h"
#include "runtime/rendezvous/join_job.h"

namespace sluice {
namespace {

constexpr std::size_t kClockRounds = 16;

std::span<const std::byte> next_piece(std::span<const std::byte>& left) {
    const std::span<const std::byte> piece = left.first(std::min(left.size(), kLargestPiece));
    left = left.subspan(piece.size());
    return piece;
}

void append(std::vector<std::byte>& all, std::span<const std::byte> piece) {
    all.insert(all.end(), piece.begin(), piece.end());
}

CallParcel parcel_of(std::uint64_t call, std::string_view what, bool more, std::span<const std::byte> piece) {
    SLUICE_CHECK(what.size() <= kLongestWhat, "a call has a short name");
    return {call, std::string(what), more, {piece.begin(), piece.end()}};
}

}  // namespace

struct Rendezvous::State {
    std::uint32_t process, processes;
    JobLink link;
    std::uint64_t calls = 0;

    State(const LaunchPlace& place, const JobMember& member, const JobLimits& limits)
        : process(place.process), processes(place.processes), link(process, join_job(place, member, limits), limits) {}

    [[noreturn]] void fail(FailureKind kind, const std::string& message) {
        link.begin_failure(kind, message);
        throw_verdict(*link.verdict());
    }

    CallParcel receive(std::uint32_t from) {
        try {
            return decode_call_parcel(link.receive(from));
        } catch (const InputError& error) {
            if (link.verdict()) throw;
            fail(FailureKind::kInternal,
                 fmt::format("what {} sent is not understood: {}", link.names()[from], error.what()));
        }
    }

    void expect_same(const CallParcel& got, std::uint32_t from, std::string_view what) {
        if (got.call == calls && got.what == what) return;
        fail(FailureKind::kInternal,
             fmt::format("{} makes call {}, \"{}\", but {} makes call {}, \"{}\"", link.names()[process], calls, what,
                         link.names()[from], got.call, got.what));
    }
};

Rendezvous::Rendezvous(const LaunchPlace& place, const JobMember& member, const JobLimits& limits)
    : state_(std::make_unique<State>(place, member, limits)) {}
Rendezvous::~Rendezvous() = default;

std::uint32_t Rendezvous::process() const { return state_->process; }
std::uint32_t Rendezvous::processes() const { return state_->processes; }

// In rounds: everybody sends a piece to process 0, which answers with one of its own; until nobody has any left.
Rendezvous::Exchanged Rendezvous::exchange(std::string_view what, std::span<const std::byte> mine) {
    State& s = *state_;
    Exchanged exchanged;
    exchanged.to_root.resize(s.process == 0 ? s.processes : 0);
    for (bool more = true; more; ++s.calls) {
        const std::span<const std::byte> piece = next_piece(mine);
        if (s.process == 0) {
            more = exchange_as_root(what, piece, exchanged.to_root, !mine.empty());
            continue;
        }
        s.link.send(0, encode(parcel_of(s.calls, what, !mine.empty(), piece)));
        const CallParcel answer = s.receive(0);
        s.expect_same(answer, 0, what);
        append(exchanged.from_root, answer.piece);
        more = answer.more;
    }
    return exchanged;
}

bool Rendezvous::exchange_as_root(std::string_view what, std::span<const std::byte> piece,
                                  std::vector<std::vector<std::byte>>& gathered, bool more) {
    State& s = *state_;
    for (std::uint32_t p = 1; p < s.processes; ++p) {
        const CallParcel parcel = s.receive(p);
        s.expect_same(parcel, p, what);
        append(gathered[p], parcel.piece);
        more = more || parcel.more;
    }
    const std::vector<std::byte> answer = encode(parcel_of(s.calls, what, more, piece));
    for (std::uint32_t p = 1; p < s.processes; ++p) s.link.send(p, answer);
    return more;
}

void Rendezvous::barrier(std::string_view what) { exchange(what, {}); }

std::vector<std::byte> Rendezvous::broadcast(std::string_view what, std::span<const std::byte> bytes) {
    Exchanged exchanged = exchange(what, process() == 0 ? bytes : std::span<const std::byte>{});
    if (process() == 0) return {bytes.begin(), bytes.end()};
    return std::move(exchanged.from_root);
}

std::vector<std::vector<std::byte>> Rendezvous::gather(std::string_view what, std::span<const std::byte> bytes) {
    Exchanged exchanged = exchange(what, process() == 0 ? std::span<const std::byte>{} : bytes);
    if (process() == 0) exchanged.to_root[0].assign(bytes.begin(), bytes.end());
    return std::move(exchanged.to_root);
}

std::vector<ClockOffset> Rendezvous::clock_offsets() {
    State& s = *state_;
    std::vector<ClockOffset> offsets(s.processes);
    for (std::uint32_t p = 1; p < s.processes && s.process == 0; ++p) {
        std::int64_t fastest = INT64_MAX;
        for (const JobLink::RoundTrip& trip : s.link.round_trips(p, kClockRounds)) {
            const std::int64_t time = trip.received - trip.sent;
            if (time >= fastest) continue;
            fastest = time;
            offsets[p] = {trip.sent + time / 2 - trip.answered, time / 2};
        }
    }
    return offsets;
}

Rendezvous::Watch::Watch(Rendezvous& rendezvous, JobRun run) : rendezvous_(rendezvous) {
    rendezvous.state_->link.watch(std::move(run));
}
Rendezvous::Watch::~Watch() { rendezvous_.state_->link.unwatch(); }

JobVerdict Rendezvous::fail(FailureKind kind, const std::string& message) {
    state_->link.begin_failure(kind, message);
    return *state_->link.verdict();
}

std::optional<JobVerdict> Rendezvous::verdict() { return state_->link.verdict(); }

// A run that was stopped says nothing of itself: the failure that stopped it is known.
void run_in_job(Rendezvous& rendezvous, const std::function<void()>& run) {
    RunFailure failure;
    try {
        return run();
    } catch (const RunStopped&) {
        failure.message = "the run was stopped";
    } catch (...) {
        failure = current_failure();
    }
    throw_verdict(rendezvous.fail(failure.kind, failure.message));
}

}  // namespace sluice

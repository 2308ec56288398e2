#include "runtime/rendezvous/join_job.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/fingerprint.h"
#include "runtime/rendezvous/verdict_frame.h"
#include "runtime/rendezvous/wire.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// Who has connected and not said who it is has so long to do it.
constexpr std::chrono::seconds kIntroduction{5};
constexpr std::size_t kMostStrangers = 64;

int milliseconds_until(Time until) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 100));
}

struct Hello {
    std::uint32_t process = 0, processes = 0;
    JobMember member;
};

std::vector<std::byte> encode(const Hello& hello) {
    WireWriter writer;
    writer.u32(hello.process);
    writer.u32(hello.processes);
    writer.u64(hello.member.digest);
    writer.text(hello.member.name);
    return writer.take();
}

Hello decode_hello(const Frame& frame) {
    if (frame.kind != FrameKind::kHello) throw InputError("the first message is no hello");
    WireReader reader(frame.payload);
    Hello hello;
    hello.process = reader.u32();
    hello.processes = reader.u32();
    hello.member.digest = reader.u64();
    hello.member.name = reader.text(kLongestName);
    reader.expect_end();
    return hello;
}

// ---- Process 0
// -------------------------------------------------------------------------------------------------------

class Reception {
public:
    Reception(const LaunchPlace& place, const JobMember& member, const JobLimits& limits)
        : place_(place), member_(member), until_(Clock::now() + limits.join), listener_(listen_at(place.meeting)) {
        members_.resize(place.processes - 1);
        names_.resize(place.processes);
        names_[0] = member.name;
    }
    ~Reception() {
        if (!place_.meeting.path.empty()) unlink(place_.meeting.path.c_str());
    }

    JoinedJob receive_all() {
        try {
            while (missing() > 0) {
                if (Clock::now() >= until_) throw EnvironmentError(missing_text());
                wait();
                while (auto accepted = accept_from(listener_)) {
                    strangers_.push_back({Connection(std::move(*accepted)), Clock::now() + kIntroduction});
                    if (strangers_.size() > kMostStrangers) strangers_.pop_front();
                }
                hear_members();
                hear_strangers();
            }
        } catch (const std::exception& error) {
            tell_members(error);
            throw;
        }
        return welcome();
    }

private:
    struct Stranger {
        Connection connection;
        Time until;
    };

    std::size_t missing() const {
        return static_cast<std::size_t>(std::count(members_.begin(), members_.end(), std::nullopt));
    }

    std::string missing_text() const {
        std::string text = fmt::format("{}: {} of {} processes have not come: process", describe(place_.meeting),
                                       missing(), place_.processes);
        std::size_t named = 0;
        for (std::size_t p = 0; p < members_.size(); ++p)
            if (!members_[p] && ++named <= 8) text += fmt::format("{} {}", named == 1 ? "" : ",", p + 1);
        return named > 8 ? text + " ..." : text;
    }

    void wait() {
        std::vector<pollfd> all = {{listener_.get(), POLLIN, 0}};
        for (const auto& member : members_)
            if (member) all.push_back({member->descriptor(), POLLIN, 0});
        for (const Stranger& stranger : strangers_) all.push_back({stranger.connection.descriptor(), POLLIN, 0});
        poll(all.data(), all.size(), milliseconds_until(until_));
    }

    // Members have nothing to say before all are there; one that ends is lost.
    void hear_members() {
        for (std::size_t p = 0; p < members_.size(); ++p) {
            if (!members_[p] || members_[p]->receive()) continue;
            members_[p].reset();
            throw EnvironmentError(fmt::format("{} ended before all processes were there", names_[p + 1]));
        }
    }

    void hear_strangers() {
        for (auto stranger = strangers_.begin(); stranger != strangers_.end();)
            stranger = introduced(*stranger) ? strangers_.erase(stranger) : std::next(stranger);
    }

    // True when it is no stranger any more, or sent away.
    bool introduced(Stranger& stranger) {
        const bool open = stranger.connection.receive();
        std::optional<Hello> hello;
        try {
            if (const std::optional<Frame> frame = stranger.connection.next()) hello = decode_hello(*frame);
        } catch (const InputError&) {
            return true;  // none of ours
        }
        if (hello) return accept(*hello, std::move(stranger.connection)), true;
        return !open || Clock::now() > stranger.until;
    }

    void accept(const Hello& hello, Connection connection) {
        const auto refuse = [&](const std::string& why) {
            send_last(connection, FrameKind::kRefusal, encode(JobVerdict{FailureKind::kInput, why}));
            throw InputError(why);
        };
        if (hello.processes != place_.processes)
            refuse(fmt::format("{} is one of {} processes, but {} of {}, expected as many for all of a job",
                               hello.member.name, hello.processes, names_[0], place_.processes));
        if (hello.process == 0 || hello.process >= place_.processes)
            refuse(fmt::format("{} says that it is process {} of {}, expected 1 to {}", hello.member.name,
                               hello.process, place_.processes, place_.processes - 1));
        if (members_[hello.process - 1])
            refuse(fmt::format("{} came twice as process {}, expected every process of a job once", hello.member.name,
                               hello.process));
        if (hello.member.digest != member_.digest)
            refuse(fmt::format(
                "{} has another schedule ({}) than {} ({}), expected the same scenario and version of "
                "sluice in all processes",
                hello.member.name, fingerprint_hex(hello.member.digest), names_[0], fingerprint_hex(member_.digest)));
        members_[hello.process - 1] = std::move(connection);
        names_[hello.process] = hello.member.name;
    }

    void tell_members(const std::exception& error) {
        const bool input = dynamic_cast<const InputError*>(&error) != nullptr;
        const JobVerdict verdict{input ? FailureKind::kInput : FailureKind::kEnvironment, error.what()};
        for (auto& member : members_)
            if (member) send_last(*member, FrameKind::kVerdict, encode(verdict));
    }

    // A small frame on a connection that has been sent nothing yet: it fits into the system's buffer.
    static void send_last(Connection& connection, FrameKind kind, std::span<const std::byte> payload) {
        connection.queue(kind, payload);
        connection.send();
        connection.end_output();
    }

    JoinedJob welcome() {
        JoinedJob job;
        job.names = names_;
        for (auto& member : members_) {
            WireWriter writer;
            writer.text(names_[0]);
            member->queue(FrameKind::kWelcome, writer.take());
            job.connections.push_back(std::move(*member));
        }
        return job;
    }

    const LaunchPlace& place_;
    const JobMember& member_;
    const Time until_;
    Descriptor listener_;
    std::vector<std::optional<Connection>> members_;  // by process - 1
    std::vector<std::string> names_;
    std::list<Stranger> strangers_;
};

// ---- The others
// ------------------------------------------------------------------------------------------------------

// The name of process 0, when it says welcome.
std::optional<std::string> read_answer(const LaunchPlace& place, Connection& connection, bool open) {
    const std::optional<Frame> frame = connection.next();
    if (!frame && !open)
        throw EnvironmentError(
            fmt::format("{}: process 0 ended before all processes were there", describe(place.meeting)));
    if (!frame) return std::nullopt;
    if (frame->kind == FrameKind::kRefusal || frame->kind == FrameKind::kVerdict)
        throw_verdict(decode_verdict(frame->payload));
    if (frame->kind != FrameKind::kWelcome)
        throw InputError(fmt::format("{}: process 0 answered with a {}", describe(place.meeting), name(frame->kind)));
    return WireReader(frame->payload).text(kLongestName);
}

JoinedJob visit(const LaunchPlace& place, const JobMember& member, const JobLimits& limits) {
    const Time until = Clock::now() + limits.join;
    Connection connection(connect_to(place.meeting, until));
    connection.queue(FrameKind::kHello, encode(Hello{place.process, place.processes, member}));
    std::optional<std::string> root;
    for (bool open = true; !root;) {
        if (!connection.send()) open = false;
        pollfd waiting{connection.descriptor(), static_cast<short>(POLLIN | (connection.has_output() ? POLLOUT : 0)),
                       0};
        poll(&waiting, 1, milliseconds_until(until));
        open = connection.receive() && open;
        root = read_answer(place, connection, open);
        if (!root && Clock::now() >= until)
            throw EnvironmentError(fmt::format("{}: not all processes have come in time", describe(place.meeting)));
    }
    JoinedJob job;
    job.connections.push_back(std::move(connection));
    job.names.resize(place.processes);
    for (std::uint32_t p = 0; p < place.processes; ++p) job.names[p] = fmt::format("process {}", p);
    job.names[0] = *root;
    job.names[place.process] = member.name;
    return job;
}

}  // namespace

JoinedJob join_job(const LaunchPlace& place, const JobMember& member, const JobLimits& limits) {
    SLUICE_CHECK(member.name.size() <= kLongestName, "a member's name is short");
    if (place.processes == 1) return {{}, {member.name}};
    if (place.process == 0) return Reception(place, member, limits).receive_all();
    return visit(place, member, limits);
}

}  // namespace sluice

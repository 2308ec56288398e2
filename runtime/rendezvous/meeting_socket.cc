#include "runtime/rendezvous/meeting_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const MeetingPoint& point, const char* what, int error) {
    throw EnvironmentError(fmt::format("{}: {}: {}", describe(point), what, std::strerror(error)));
}

struct Address {
    sockaddr_storage bytes{};
    socklen_t length = 0;
    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

Address address_of_path(const MeetingPoint& point) {
    sockaddr_un of_path{};
    of_path.sun_family = AF_UNIX;
    if (point.path.size() >= sizeof of_path.sun_path)
        throw InputError(fmt::format("{}: the path has {} bytes, expected at most {}: a socket's path is short",
                                     describe(point), point.path.size(), sizeof of_path.sun_path - 1));
    std::memcpy(of_path.sun_path, point.path.c_str(), point.path.size() + 1);
    Address address;
    std::memcpy(&address.bytes, &of_path, sizeof of_path);
    address.length = sizeof of_path;
    return address;
}

Address address_of_host(const MeetingPoint& point) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int code = getaddrinfo(point.host.c_str(), fmt::format_int(point.port).c_str(), &hints, &found);
    if (code != 0)
        throw EnvironmentError(fmt::format("{}: the host is not known here: {}", describe(point), gai_strerror(code)));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
    Address address;
    std::memcpy(&address.bytes, found->ai_addr, found->ai_addrlen);
    address.length = found->ai_addrlen;
    return address;
}

Address address_of(const MeetingPoint& point) {
    return point.path.empty() ? address_of_host(point) : address_of_path(point);
}

Descriptor open_socket(const MeetingPoint& point, const Address& address) {
    Descriptor made(socket(address.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!made) fail(point, "socket", errno);
    return made;
}

// Messages are small and waited for.
void send_at_once(const Descriptor& socket) {
    const int yes = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // fails for paths, which need it not
}

// 0 or why not.
int try_connect(const Descriptor& socket, const Address& address, Clock::time_point until) {
    if (connect(socket.get(), address.get(), address.length) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waiting{socket.get(), POLLOUT, 0};
    if (poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(0, left))) <= 0) return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
}

// A socket that a job left behind when it was killed.
void remove_abandoned(const MeetingPoint& point, const Address& address) {
    struct stat status {};
    if (lstat(point.path.c_str(), &status) != 0) return;
    if (!S_ISSOCK(status.st_mode))
        throw InputError(
            fmt::format("{}: is there already and no socket, expected a path for a new one", describe(point)));
    const int error = try_connect(open_socket(point, address), address, Clock::now());
    if (error == ECONNREFUSED) unlink(point.path.c_str());
}

}  // namespace

Descriptor listen_at(const MeetingPoint& point) {
    const Address address = address_of(point);
    if (!point.path.empty()) remove_abandoned(point, address);
    Descriptor listener = open_socket(point, address);
    if (point.path.empty()) {
        const int yes = 1;
        setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    } else if (fchmod(listener.get(), S_IRUSR | S_IWUSR) != 0) {
        fail(point, "fchmod", errno);
    }
    if (bind(listener.get(), address.get(), address.length) != 0) {
        if (errno == EADDRINUSE) fail(point, "somebody listens there already: bind", errno);
        fail(point, "bind", errno);
    }
    if (listen(listener.get(), SOMAXCONN) != 0) fail(point, "listen", errno);
    return listener;
}

std::optional<Descriptor> accept_from(const Descriptor& listener) {
    Descriptor accepted(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!accepted) return std::nullopt;  // gone again, or too many: whoever belongs here tries again
    send_at_once(accepted);
    return accepted;
}

Descriptor connect_to(const MeetingPoint& point, Clock::time_point until) {
    for (;;) {
        const Address address = address_of(point);
        Descriptor made = open_socket(point, address);
        const int error = try_connect(made, address, until);
        if (error == 0) {
            send_at_once(made);
            return made;
        }
        if (Clock::now() >= until) fail(point, "process 0 was not found there: connect", error);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

}  // namespace sluice

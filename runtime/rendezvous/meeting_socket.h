// Sockets at a meeting point. Descriptors are non-blocking and closed in child processes.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "runtime/rendezvous/launch_place.h"

namespace sluice {

class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor();
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }

private:
    int fd_ = -1;
};

// Listens, at the address that a host's name stands for here and at no other; a path becomes a socket that its owner
// alone may use, in place of one that nobody listens at any more. Throws EnvironmentError.
Descriptor listen_at(const MeetingPoint& point);
// Nothing where nobody is waiting.
std::optional<Descriptor> accept_from(const Descriptor& listener);

// Tries until somebody listens. Throws EnvironmentError when `until` has passed.
Descriptor connect_to(const MeetingPoint& point, std::chrono::steady_clock::time_point until);

}  // namespace sluice

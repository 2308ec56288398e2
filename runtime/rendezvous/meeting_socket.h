// Sockets at a meeting point, non-blocking and closed in child processes.
#pragma once

#include <chrono>
#include <optional>

#include "runtime/rendezvous/descriptor.h"
#include "runtime/rendezvous/launch_place.h"

namespace sluice {

// Listens, at the address that a host's name stands for here and at no other; a path becomes a socket that its owner
// alone may use, in place of one that nobody listens at any more. Throws EnvironmentError.
Descriptor listen_at(const MeetingPoint& point);
// Nothing where nobody is waiting.
std::optional<Descriptor> accept_from(const Descriptor& listener);

// Tries until somebody listens. Throws EnvironmentError when `until` has passed.
Descriptor connect_to(const MeetingPoint& point, std::chrono::steady_clock::time_point until);

}  // namespace sluice

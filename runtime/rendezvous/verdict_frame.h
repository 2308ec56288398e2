// A verdict as it goes over a connection.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/rendezvous/job_member.h"

namespace sluice {

// Longer lines than a frame takes are cut.
std::vector<std::byte> encode(const JobVerdict& verdict);
JobVerdict decode_verdict(std::span<const std::byte> payload);  // throws InputError

}  // namespace sluice

// How the processes of a job find each other: all connect to process 0, which checks that they belong together.
#pragma once

#include <string>
#include <vector>

#include "runtime/rendezvous/connection.h"
#include "runtime/rendezvous/job_member.h"
#include "runtime/rendezvous/launch_place.h"

namespace sluice {

struct JoinedJob {
    std::vector<Connection> connections;  // at process 0 by process - 1; elsewhere one, to process 0
    std::vector<std::string> names;       // by process
};

// Returns when all processes are there. Throws InputError when they do not belong together (another digest, another
// number of processes, one twice), EnvironmentError when they do not come in time or one ends; so do all the others.
// What connects and is none of them is turned away.
JoinedJob join_job(const LaunchPlace& place, const JobMember& member, const JobLimits& limits);

}  // namespace sluice

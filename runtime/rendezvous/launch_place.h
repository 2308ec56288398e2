// Which process of a job this one is, and where the processes meet: from flags, or from what launchers set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// Where process 0 waits for the others. Nobody connects to, or listens at, anything else.
struct MeetingPoint {
    std::string path;  // of a socket on this machine; empty: the address
    std::string host;
    std::uint16_t port = 0;
};
std::string describe(const MeetingPoint&);  // "tcp:node1:29500", "file:/run/job/meeting"

struct LaunchPlace {
    std::uint32_t process = 0, processes = 1;
    std::uint32_t local = 0;  // among the processes of this machine
    MeetingPoint meeting;     // empty where there is one process alone
};

// As given, or empty.
struct LaunchFlags {
    std::string rank, ranks;  // --rank, --ranks: of the process
    std::string rendezvous;   // file:PATH or tcp:HOST:PORT
};

using Environment = std::function<std::optional<std::string>(const char* name)>;

// The environment of this process.
Environment process_environment();

// Flags before the environment. Of that the first that names a place:
//   RANK, WORLD_SIZE, LOCAL_RANK                                     torchrun, and by hand
//   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK    Open MPI's mpirun
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID                              other mpiruns
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID                srun
// and the point from MASTER_ADDR and MASTER_PORT. torchrun's own agent listens there: where it says so
// (TORCHELASTIC_USE_AGENT_STORE=True) the processes meet at the next port. Without any of these: one process alone.
// Throws InputError for values that are no numbers, out of range, or incomplete.
LaunchPlace read_launch_place(const LaunchFlags& flags, const Environment& environment);

}  // namespace sluice

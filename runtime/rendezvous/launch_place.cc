#include "runtime/rendezvous/launch_place.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "base/error.h"

namespace sluice {
namespace {

constexpr std::uint32_t kMostProcesses = 65536;

struct Launcher {
    const char *process, *processes, *local;
};
// SLURM_STEP_NUM_TASKS, not SLURM_NTASKS: the latter is set in a batch script too, where no srun has begun anything.
constexpr std::array kLaunchers{
    Launcher{"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    Launcher{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    Launcher{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

std::uint32_t read_number(std::string_view name, std::string_view text, std::uint32_t least, std::uint32_t most) {
    std::uint32_t value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || at != end || value < least || value > most)
        throw InputError(fmt::format("{}: got '{}', expected a whole number from {} to {}", name, text, least, most));
    return value;
}

LaunchPlace place_of(std::string_view process_name, std::string_view process, std::string_view processes_name,
                     std::string_view processes) {
    LaunchPlace place;
    place.processes = read_number(processes_name, processes, 1, kMostProcesses);
    place.process = read_number(process_name, process, 0, place.processes - 1);
    return place;
}

LaunchPlace place_of_flags(const LaunchFlags& flags, const Environment& environment) {
    if (flags.rank.empty() || flags.ranks.empty())
        throw InputError(
            "--rank and --ranks go together: got one of them, expected which process this is, and of how "
            "many");
    LaunchPlace place = place_of("--rank", flags.rank, "--ranks", flags.ranks);
    place.local = place.process;
    if (const auto local = environment("LOCAL_RANK"))
        place.local = read_number("LOCAL_RANK", *local, 0, kMostProcesses);
    return place;
}

LaunchPlace place_of_launcher(const Environment& environment) {
    for (const Launcher& launcher : kLaunchers) {
        const auto process = environment(launcher.process), processes = environment(launcher.processes);
        if (!process || !processes) continue;
        LaunchPlace place = place_of(launcher.process, *process, launcher.processes, *processes);
        const auto local = environment(launcher.local);
        if (local) place.local = read_number(launcher.local, *local, 0, kMostProcesses);
        if (!local && place.processes > 1)
            throw InputError(
                fmt::format("{} and {} are set, but {} is not: expected which of this machine's processes "
                            "this is",
                            launcher.process, launcher.processes, launcher.local));
        return place;
    }
    return {};
}

MeetingPoint point_of_flag(const std::string& text) {
    if (text.starts_with("file:") && text.size() > 5) return {text.substr(5), "", 0};
    const std::size_t colon = text.rfind(':');
    if (!text.starts_with("tcp:") || colon <= 4 || colon == std::string::npos)
        throw InputError(fmt::format("--rendezvous: got '{}', expected file:PATH or tcp:HOST:PORT", text));
    std::string host = text.substr(4, colon - 4);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    return {"", host, static_cast<std::uint16_t>(read_number("--rendezvous: port", text.substr(colon + 1), 1, 65535))};
}

MeetingPoint point_of_environment(const Environment& environment) {
    const auto host = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
    if (!host || !port || host->empty())
        throw InputError(
            "several processes, but no place for them to meet: expected MASTER_ADDR and MASTER_PORT, or --rendezvous "
            "tcp:HOST:PORT or file:PATH");
    std::uint32_t number = read_number("MASTER_PORT", *port, 1, 65535);
    if (environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") number += number < 65535 ? 1 : -1U;
    return {"", *host, static_cast<std::uint16_t>(number)};
}

}  // namespace

std::string describe(const MeetingPoint& point) {
    return point.path.empty() ? fmt::format("tcp:{}:{}", point.host, point.port) : "file:" + point.path;
}

Environment process_environment() {
    return [](const char* name) -> std::optional<std::string> {
        const char* const value = std::getenv(name);
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    };
}

LaunchPlace read_launch_place(const LaunchFlags& flags, const Environment& environment) {
    const bool by_flags = !flags.rank.empty() || !flags.ranks.empty();
    LaunchPlace place = by_flags ? place_of_flags(flags, environment) : place_of_launcher(environment);
    if (place.processes == 1) return place;
    place.meeting = flags.rendezvous.empty() ? point_of_environment(environment) : point_of_flag(flags.rendezvous);
    return place;
}

}  // namespace sluice

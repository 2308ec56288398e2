#include "tools/sluice/schedule_of_trace.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/fingerprint.h"
#include "schedule/schedule_file.h"

namespace sluice {

std::string schedule_fingerprint(const Schedule& schedule) { return fingerprint_hex(fingerprint(to_binary(schedule))); }

std::optional<Schedule> read_schedule_of(const std::string& path, const Trace& trace, const std::string& trace_path) {
    if (path.empty()) return std::nullopt;
    Schedule schedule = read_schedule(path);
    const std::string got = schedule_fingerprint(schedule);
    if (got != trace.provenance.schedule_fingerprint)
        throw InputError(fmt::format("{}: is schedule {}, but {} is of schedule {}", path, got, trace_path,
                                     trace.provenance.schedule_fingerprint));
    return schedule;
}

}  // namespace sluice

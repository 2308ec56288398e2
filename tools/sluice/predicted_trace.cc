#include "tools/sluice/predicted_trace.h"

#include <utility>

#include "base/error.h"
#include "base/fingerprint.h"
#include "schedule/schedule_file.h"
#include "sim/simulate.h"

namespace sluice {

Trace predicted_trace(const PlannedRun& planned) {
    const Scenario& s = planned.scenario;
    Simulation simulation = simulate(planned.schedule, s.cluster, s.calibration, {});
    SLUICE_CHECK(simulation.stuck.empty(), "planned schedules run to their end");
    Provenance& provenance = simulation.trace.provenance;
    provenance.scenario = s.name;
    provenance.scenario_fingerprint = s.fingerprint;
    provenance.schedule_fingerprint = fingerprint_hex(fingerprint(to_binary(planned.schedule)));
    return std::move(simulation.trace);
}

}  // namespace sluice

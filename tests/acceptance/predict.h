// Scenario to summary in one call, for tests of the whole chain.
#pragma once

#include <gtest/gtest.h>

#include "planner/lower.h"
#include "scenarios/scenario.h"
#include "schedule/verify.h"
#include "sim/simulate.h"
#include "traces/step_summary.h"

namespace sluice {

inline Scenario shipped(const std::string& name) {
    return read_scenario(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios" / (name + ".yaml"));
}

inline StepSummary replay(const Scenario& scenario, const Lowered& lowered) {
    SimulateOptions options;
    options.kernels = false;
    const Simulation simulation = simulate(lowered.schedule, scenario.cluster, scenario.calibration, options);
    EXPECT_TRUE(simulation.stuck.empty());
    return summarize_step(simulation.trace);
}

}  // namespace sluice

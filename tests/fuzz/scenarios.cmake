sluice_fuzz(scenario_fuzz tests/golden/scenarios/valid LIBRARIES sluice_scenarios)

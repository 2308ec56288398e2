sluice_fuzz(scenario_fuzz tests/golden/scenarios/valid LIBRARIES sluice_scenarios)
# Named files of the seeds are looked for there.
target_compile_definitions(scenario_fuzz PRIVATE
  SLUICE_SEED_FOLDER="${PROJECT_SOURCE_DIR}/tests/golden/scenarios/valid")
sluice_fuzz(hf_config_fuzz tests/golden/scenarios/hf LIBRARIES sluice_scenarios)

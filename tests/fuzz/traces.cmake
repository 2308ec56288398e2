sluice_fuzz(trace_fuzz tests/golden/traces LIBRARIES sluice_traces)

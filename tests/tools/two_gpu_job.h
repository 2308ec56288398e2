// Small bf16 models for two GPUs, as files in a folder of the test, and what is known of their runs.
#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace sluice {

// The command and the source folder may lie elsewhere than where they were built: the environment variables
// SLUICE_COMMAND and SLUICE_SOURCE_DIR then say where.
std::string command_path();
std::string source_folder();

struct TwoGpuScenario {
    std::string name, path;
    std::vector<std::string> ranks;  // by op of the schedule that is run: "0"
};

class TwoGpuScenarios {
public:
    TwoGpuScenarios();  // two stages, and two replicas

    const TwoGpuScenario& of(std::size_t number) const { return all_[number % all_.size()]; }
    const std::vector<TwoGpuScenario>& all() const { return all_; }
    std::string file(const std::string& name) const { return folder_ / name; }

    // sluice run of that scenario on GPUs.
    std::vector<std::string> run(const TwoGpuScenario&, int steps, const std::vector<std::string>& more) const;

private:
    TemporaryFolder folder_;
    std::vector<TwoGpuScenario> all_;
};

}  // namespace sluice

#include "tests/tools/two_gpu_job.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <stdexcept>
#include <tuple>

#include "base/file.h"
#include "tests/support/process_group.h"
#include "tests/tools/derived_scenario.h"
#include "tests/tools/ranks_of_ops.h"

namespace sluice {
namespace {

std::string from_environment(const char* name, const char* fallback) {
    const char* const value = std::getenv(name);
    return value == nullptr ? fallback : value;
}

void write_text(const std::string& path, const std::string& text) {
    write_file(path, [&](std::ostream& out) { out << text; });
}

std::string scenario_text(const std::string& name, int pp, int dp) {
    return fmt::format(R"(name: {}
model: {{name: two-gpus, layers: 4, hidden: 1024, heads: 8, kv_heads: 4, head_dim: 128, ffn: 2048, vocabulary: 256,
  activation: swiglu, norm: rmsnorm, positions: rope, bias: false, tied_embeddings: false}}
cluster: h200x2
calibration: h200x2
sequence: 4 Ki tokens
batch: 2 sequences
policy: {{sp: {{degree: 1}}, pp: {}, dp: {}, n: 4, partition: {{kind: flops, alignment: 128 tokens}}, placement: full,
  granularity: layer}}
)",
                       name, pp, dp);
}

// Shapes this small are not among the measured ones: room for whatever cuDNN chooses.
std::string calibration_text() {
    const auto path = std::filesystem::path(source_folder()) / "scenarios" / "calibrations" / "h200x2.yaml";
    return replaced(read_file(path, 1_MiB), "gemm_workspace: {bytes: 64 KiB", "gemm_workspace: {bytes: 256 MiB");
}

std::string lowered(const std::string& path) {
    ProcessGroup group;
    group.start({command_path(), "lower", path}, {});
    const auto ended = group.wait(0, std::chrono::steady_clock::now() + std::chrono::seconds(60));
    if (!ended || ended->code != 0)
        throw std::runtime_error("sluice lower: " + (ended ? ended->errors : "runs for more than a minute"));
    return ended->output;
}

}  // namespace

std::string command_path() { return from_environment("SLUICE_COMMAND", SLUICE_COMMAND); }
std::string source_folder() { return from_environment("SLUICE_SOURCE_DIR", SLUICE_SOURCE_DIR); }

TwoGpuScenarios::TwoGpuScenarios() {
    std::filesystem::create_directory(file("calibrations"));
    write_text(file("calibrations/h200x2.yaml"), calibration_text());
    std::filesystem::create_directory_symlink(std::filesystem::path(source_folder()) / "scenarios" / "clusters",
                                              file("clusters"));
    std::string text;
    for (int line = 0; text.size() < 100000; ++line)
        text += fmt::format("{} times {} is {}\n", line, line, line * line);
    write_text(file("data.txt"), text);
    for (const auto& [name, pp, dp] : {std::tuple("pp2", 2, 1), std::tuple("dp2", 1, 2)}) {
        const std::string path = file(std::string(name) + ".yaml");
        write_text(path, scenario_text(name, pp, dp));
        all_.push_back({name, path, ranks_of_ops(lowered(path))});
    }
}

std::vector<std::string> TwoGpuScenarios::run(const TwoGpuScenario& scenario, int steps,
                                              const std::vector<std::string>& more) const {
    std::vector<std::string> words{command_path(),   "run",     scenario.path,         "--device", "cuda", "--data",
                                   file("data.txt"), "--steps", std::to_string(steps), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

}  // namespace sluice

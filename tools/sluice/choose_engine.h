// What `sluice run --device` may name: the backends of this build.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cpu/cpu_run.h"
#include "runtime/decoder/engine.h"
#include "runtime/stand_in.h"
#include "scenarios/scenario.h"
#include "traces/trace.h"

namespace sluice {

class RunJob;

enum class Device : std::uint8_t { kCpu, kCuda };

struct DeviceOptions {
    Device device = Device::kCpu;
    bool deterministic = false;  // on a GPU; a CPU always is
    std::int64_t parts = 1;      // of the GPU, one for each rank
    CpuOptions cpu;
    std::int64_t gpus = 1;              // of this process, one for each of its ranks
    RunJob* job = nullptr;              // which this process has a part in; null: nobody else, and no watch
    std::optional<StandIns> stand_ins;  // in the place of ranks that are not run
};

// "cpu" or "cuda". Throws InputError for others, and for cuda where this build has none.
Device parse_device(std::string_view word);

// Throws InputError where the device and the processes do not run as many ranks.
void expect_place_for(const DeviceOptions& options, std::uint32_t processes, std::size_t ranks);

EngineMaker choose_engine(const DeviceOptions& options, const Scenario& scenario);

// The hardware and the versions that a trace of this device names.
struct DeviceDescription {
    std::string producer, hardware;
    std::vector<std::pair<std::string, std::string>> versions;
};
DeviceDescription describe_device(const DeviceOptions& options);

}  // namespace sluice

// Private to `sluice profile --device cuda`: what it says of several GPUs.
#pragma once

#include <string>

#include "tools/sluice/gpu_profile_report.h"

namespace sluice {

// Lines of the report: every kind of message, how far the calibration is off, copies of all GPUs.
std::string gpu_messages_text(const GpuProfileReport& r);
std::string gpu_messages_json_text(const GpuProfileReport& r);  // one JSON object

// What the files say of the blocks that several GPUs change.
void describe_messages(const GpuProfileReport& r, FileOrigin& calibration_origin);
void describe_gpus(const GpuProfileReport& r, FileOrigin& cluster_origin);

}  // namespace sluice

// Writes a checkpoint that is there as a whole or not at all, whenever the process is killed or the power fails.
//
//   FOLDER/step-00000010/
//     config.json                           where given, so that Hugging Face loads the folder
//     model.safetensors                     whole tensors under the names given; where they are more than a file may
//                                           have, model-00001-of-00003.safetensors and model.safetensors.index.json
//     optimizer-00001-of-00004.safetensors  one per shard, whole tensors
//     manifest.json                         last: state, sizes and checksums of all of these
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "runtime/checkpoint/checkpoint_manifest.h"
#include "runtime/checkpoint/write_safetensors.h"

namespace sluice {

struct CheckpointContent {
    CheckpointState state;
    std::string config;                                 // config.json; empty: none
    std::vector<TensorToWrite> model;                   // names all different
    std::vector<std::vector<TensorToWrite>> optimizer;  // by file; names all different
};

struct CheckpointOptions {
    std::int64_t keep = 3;                    // whole checkpoints to keep, this one included; 0: all
    Bytes largest_model_file{5'000'000'000};  // the Hugging Face limit; one tensor may be larger
};

// The names under which AdamW's two moments of a parameter are stored: those of PyTorch's state.
std::string first_moment_name(std::string_view parameter);   // "<parameter>.exp_avg"
std::string second_moment_name(std::string_view parameter);  // "<parameter>.exp_avg_sq"

// Makes FOLDER where it is not there. Everything is written into "step-....tmp", flushed to the disk, and renamed; one
// of the same step is replaced in one moment. Only after that older ones are removed: beyond the `keep` newest up to
// this step that are whole, damaged ones not counted. Checkpoints of later steps are left alone. Returns the path.
// Throws EnvironmentError (also where another process is writing into FOLDER), and what a tensor's `fill` throws; the
// checkpoints that were there are then still there.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, const CheckpointContent& content,
                                       const CheckpointOptions& options = {});

}  // namespace sluice

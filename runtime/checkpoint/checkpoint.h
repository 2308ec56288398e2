// A checkpoint opened for reading: whole tensors by name, whatever files they are in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/checkpoint_manifest.h"
#include "runtime/checkpoint/safetensors_file.h"

namespace sluice {

// Views stay good for as long as the object lives, also when it is moved.
class Checkpoint {
public:
    // Checks the manifest, the size of every file and the structure of the tensor files, not checksums: that is what
    // latest_checkpoint() and checkpoint_damage() do. Throws InputError, EnvironmentError.
    explicit Checkpoint(const std::filesystem::path& checkpoint);

    const CheckpointState& state() const { return manifest_.state; }

    // Sorted by name.
    const std::vector<TensorView>& model() const { return model_; }
    const std::vector<TensorView>& optimizer() const { return optimizer_; }

    // Throws InputError where the name is not there, with the nearest that is, or has another shape.
    const TensorView& model_tensor(std::string_view name, std::span<const std::int64_t> shape) const;
    const TensorView& optimizer_tensor(std::string_view name, std::span<const std::int64_t> shape) const;

private:
    const TensorView& find(const std::vector<TensorView>& tensors, std::string_view name,
                           std::span<const std::int64_t> shape) const;

    std::filesystem::path path_;
    CheckpointManifest manifest_;
    std::vector<SafetensorsFile> files_;
    std::vector<TensorView> model_, optimizer_;
};

}  // namespace sluice

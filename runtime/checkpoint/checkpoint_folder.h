// Names and states of the checkpoints below one folder. Each is a folder of its own, "step-00000010"; a name that ends
// in
// ".tmp" is one being written or removed, left behind where its writer was killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/checkpoint_manifest.h"

namespace sluice {

std::string checkpoint_name(std::int64_t step);
std::optional<std::int64_t> step_of_name(std::string_view name);

// Steps whose folders are there, newest first. What cannot be listed has none.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& folder);

// Reads the manifest. Throws InputError, EnvironmentError.
CheckpointManifest read_manifest(const std::filesystem::path& checkpoint);

enum class CheckpointCheck : std::uint8_t {
    kSizes,     // the manifest, and every file there with its size
    kChecksums  // the content of every file, too: reads all of it
};

// Why a checkpoint cannot be used, in one line, or nothing. Never throws on damage of any kind.
std::optional<std::string> checkpoint_damage(const std::filesystem::path& checkpoint, CheckpointCheck check);

struct LatestCheckpoint {
    std::optional<std::filesystem::path> path;  // the newest whole one
    CheckpointManifest manifest;                // its own
    std::vector<std::string> refused;           // newer ones, newest first: why each was not used
};

// Checks content (kChecksums), newest first. Never throws on damage: it falls back to the one before.
LatestCheckpoint latest_checkpoint(const std::filesystem::path& folder);

}  // namespace sluice

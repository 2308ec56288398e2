// What a checkpoint folder holds: manifest.json, written last, is what makes a folder a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/file_record.h"

namespace sluice {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::int64_t kCheckpointVersion = 1;

// Where a run stands. Text is UTF-8 and means something to the caller only.
struct CheckpointState {
    std::int64_t step = 0;           // steps done
    std::int64_t data_position = 0;  // the next sequence (runtime/data/sequence_stream.h)
    std::string data;                // which data that counts in: file, length, seed
    std::string schedule;            // fingerprint of the schedule that was run
    std::string plan;                // the plan, as text
    friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

struct CheckpointManifest {
    CheckpointState state;
    std::vector<FileRecord> files;  // all others of the folder
    friend bool operator==(const CheckpointManifest&, const CheckpointManifest&) = default;
};

// JSON whose first line has the CRC-32 of everything after that line, so that a manifest which is cut or changed in any
// byte is no manifest.
std::string manifest_text(const CheckpointManifest& manifest);

// Throws InputError "origin: ..." for a cut or changed text, another version, and names of files that lead elsewhere.
CheckpointManifest parse_manifest(std::string_view text, std::string_view origin);

}  // namespace sluice

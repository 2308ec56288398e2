#include "runtime/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "base/input_file.h"

namespace sluice {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr Bytes kLongestManifest = 256_MiB;  // a plan is text and may be long

void check_file(const std::filesystem::path& checkpoint, const FileRecord& expected, CheckpointCheck check) {
    const std::filesystem::path path = checkpoint / expected.name;
    const Bytes size = InputFile(path).size();
    if (size != expected.bytes)
        throw InputError(fmt::format("{}: {} bytes, expected {}{}", path.string(), size.value, expected.bytes.value,
                                     size < expected.bytes ? "; the file is truncated" : ""));
    if (check == CheckpointCheck::kSizes) return;
    if (const FileRecord got = record_of(path); got != expected)
        throw InputError(fmt::format("{}: checksum {:08x}, expected {:08x}: the file is damaged", path.string(),
                                     got.crc32, expected.crc32));
}

CheckpointManifest check_checkpoint(const std::filesystem::path& checkpoint, CheckpointCheck check) {
    CheckpointManifest manifest = read_manifest(checkpoint);
    for (const FileRecord& file : manifest.files) check_file(checkpoint, file, check);
    return manifest;
}

// Nothing that is wrong with a checkpoint may stop a search for a better one.
template <class Check>
std::optional<std::string> damage_found_by(const Check& check) {
    try {
        check();
        return std::nullopt;
    } catch (const InputError& error) {
        return error.what();
    } catch (const EnvironmentError& error) {
        return error.what();
    }
}

std::optional<std::string> damage_of_step(const std::filesystem::path& checkpoint, std::int64_t step,
                                          CheckpointManifest& manifest) {
    return damage_found_by([&] {
        manifest = check_checkpoint(checkpoint, CheckpointCheck::kChecksums);
        if (manifest.state.step != step)
            throw InputError(fmt::format("{}: its manifest is of step {}", checkpoint.string(), manifest.state.step));
    });
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

std::optional<std::int64_t> step_of_name(std::string_view name) {
    if (!name.starts_with(kPrefix)) return std::nullopt;
    const std::string_view digits = name.substr(kPrefix.size());
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
    if (error != std::errc{} || step < 0 || checkpoint_name(step) != name) return std::nullopt;
    return step;
}

std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& folder) {
    std::vector<std::int64_t> steps;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if (const auto step = step_of_name(entry->path().filename().string())) steps.push_back(*step);
    std::sort(steps.begin(), steps.end(), std::greater<>());
    return steps;
}

CheckpointManifest read_manifest(const std::filesystem::path& checkpoint) {
    const std::filesystem::path path = checkpoint / kManifestName;
    if (const InputFile file(path); file.size() > kLongestManifest)  // and it is a file, not a pipe
        throw InputError(fmt::format("{}: larger than the limit of {} bytes", path.string(), kLongestManifest.value));
    return parse_manifest(read_file(path, kLongestManifest), path.string());
}

std::optional<std::string> checkpoint_damage(const std::filesystem::path& checkpoint, CheckpointCheck check) {
    return damage_found_by([&] { check_checkpoint(checkpoint, check); });
}

LatestCheckpoint latest_checkpoint(const std::filesystem::path& folder) {
    LatestCheckpoint latest;
    for (const std::int64_t step : checkpoint_steps(folder)) {
        const std::filesystem::path path = folder / checkpoint_name(step);
        if (const auto damage = damage_of_step(path, step, latest.manifest)) {
            latest.refused.push_back(*damage);
            continue;
        }
        latest.path = path;
        return latest;
    }
    latest.manifest = {};
    return latest;
}

}  // namespace sluice

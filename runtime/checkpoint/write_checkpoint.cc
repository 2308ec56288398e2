#include "runtime/checkpoint/write_checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "runtime/checkpoint/checkpoint_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, std::string_view call, int reason) {
    throw EnvironmentError(fmt::format("{}: {}: {}", path.string(), call, std::strerror(reason)));
}

// One writer per folder. The lock goes with the process, however it ends.
class FolderLock {
public:
    explicit FolderLock(const fs::path& folder)
        : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        if (descriptor_ < 0) fail(folder, "cannot open", errno);
        if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
        const int reason = errno;
        ::close(descriptor_);
        if (reason == EWOULDBLOCK)
            throw EnvironmentError(fmt::format("{}: another process is writing checkpoints here", folder.string()));
        fail(folder, "cannot lock", reason);
    }
    ~FolderLock() { ::close(descriptor_); }
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;

private:
    int descriptor_;
};

void make_folder(const fs::path& folder) {
    std::error_code error;
    const bool is_new = fs::create_directories(folder, error);
    if (error) fail(folder, "cannot make the folder", error.value());
    if (is_new) sync_folder(fs::absolute(folder / "..").lexically_normal());
}

void remove_tree(const fs::path& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) fail(path, "cannot remove", error.value());
}

void move(const fs::path& from, const fs::path& to) {
    if (std::rename(from.c_str(), to.c_str()) != 0) fail(to, "cannot rename", errno);
}

fs::path temporary_of(const fs::path& checkpoint) {
    fs::path temporary = checkpoint;
    return temporary += ".tmp";
}

// What writers that were killed have left.
void remove_leftovers(const fs::path& folder) {
    std::vector<fs::path> leftovers;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        if (const std::string name = entry->path().filename().string();
            name.starts_with("step-") && name.ends_with(".tmp"))
            leftovers.push_back(entry->path());
    for (const fs::path& leftover : leftovers) remove_tree(leftover);
}

FileRecord write_text(const fs::path& path, std::string_view text) {
    RecordedFile file(path);
    file.append(text);
    return file.finish();
}

// Consecutive tensors, as many as a file may have.
std::vector<std::span<const TensorToWrite>> split_files(std::span<const TensorToWrite> tensors, Bytes largest) {
    std::vector<std::span<const TensorToWrite>> files;
    std::size_t first = 0;
    Bytes sum{};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Bytes bytes = tensors[i].bytes();
        if (i > first && sum + bytes > largest) {
            files.push_back(tensors.subspan(first, i - first));
            first = i;
            sum = {};
        }
        sum += bytes;
    }
    files.push_back(tensors.subspan(first));
    return files;
}

class CheckpointWriter {
public:
    CheckpointWriter(const fs::path& folder, const CheckpointContent& content) : folder_(folder), content_(content) {}

    void write(Bytes largest_model_file) && {
        if (!content_.config.empty()) files_.push_back(write_text(folder_ / "config.json", content_.config));
        write_model(split_files(content_.model, largest_model_file));
        const std::size_t shards = content_.optimizer.size();
        std::set<std::string_view> names;
        for (std::size_t i = 0; i < shards; ++i) {
            for (const TensorToWrite& tensor : content_.optimizer[i])
                SLUICE_CHECK(names.insert(tensor.name).second,
                             "optimizer tensors have different names: " + tensor.name);
            write_tensors(fmt::format("optimizer-{:05}-of-{:05}.safetensors", i + 1, shards), content_.optimizer[i]);
        }
        write_text(folder_ / kManifestName, manifest_text({content_.state, files_}));
        sync_folder(folder_);
    }

private:
    void write_tensors(const std::string& name, std::span<const TensorToWrite> tensors) {
        files_.push_back(
            write_safetensors(folder_ / name, tensors, {{"format", "pt"}}));  // which transformers asks for
    }

    void write_model(const std::vector<std::span<const TensorToWrite>>& parts) {
        if (parts.size() == 1) return write_tensors("model.safetensors", parts[0]);
        auto weight_map = nlohmann::ordered_json::object();
        Bytes total{};
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, parts.size());
            write_tensors(name, parts[i]);
            for (const TensorToWrite& tensor : parts[i]) {
                SLUICE_CHECK(!weight_map.contains(tensor.name), "model tensors have different names: " + tensor.name);
                weight_map[tensor.name] = name;
                total += tensor.bytes();
            }
        }
        const nlohmann::ordered_json index{{"metadata", {{"total_size", total.value}}}, {"weight_map", weight_map}};
        files_.push_back(write_text(folder_ / "model.safetensors.index.json", index.dump(2) + "\n"));
    }

    const fs::path& folder_;
    const CheckpointContent& content_;
    std::vector<FileRecord> files_;
};

// Moves the finished folder to its name. Where one is there already the two change places in one step of the file
// system, so that no moment has neither.
void put_in_place(const fs::path& temporary, const fs::path& checkpoint) {
    if (std::rename(temporary.c_str(), checkpoint.c_str()) == 0) return;
    if (errno != ENOTEMPTY && errno != EEXIST) fail(checkpoint, "cannot rename", errno);
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, checkpoint.c_str(), RENAME_EXCHANGE) == 0) return;
    // A file system that cannot: for a moment the one before it is the latest.
    fs::path replaced = checkpoint;
    replaced += ".old.tmp";
    move(checkpoint, replaced);
    move(temporary, checkpoint);
    move(replaced, temporary);
}

// Under another name first: a removal that is interrupted must not leave half a checkpoint under a checkpoint's name.
void remove_checkpoint(const fs::path& checkpoint) {
    const fs::path temporary = temporary_of(checkpoint);
    move(checkpoint, temporary);
    remove_tree(temporary);
}

void remove_old(const fs::path& folder, std::int64_t newest, std::int64_t keep) {
    if (keep <= 0) return;
    std::int64_t kept = 0;
    for (const std::int64_t step : checkpoint_steps(folder)) {
        if (step > newest) continue;
        const fs::path checkpoint = folder / checkpoint_name(step);
        if (kept == keep)
            remove_checkpoint(checkpoint);
        else if (step == newest || !checkpoint_damage(checkpoint, CheckpointCheck::kSizes))
            ++kept;
    }
}

}  // namespace

std::string first_moment_name(std::string_view parameter) { return fmt::format("{}.exp_avg", parameter); }
std::string second_moment_name(std::string_view parameter) { return fmt::format("{}.exp_avg_sq", parameter); }

fs::path write_checkpoint(const fs::path& folder, const CheckpointContent& content, const CheckpointOptions& options) {
    SLUICE_CHECK(content.state.step >= 0 && content.state.data_position >= 0, "steps and sequences are counted from 0");
    make_folder(folder);
    const FolderLock lock(folder);
    remove_leftovers(folder);
    fs::path checkpoint = folder / checkpoint_name(content.state.step);
    const fs::path temporary = temporary_of(checkpoint);
    make_folder(temporary);
    try {
        CheckpointWriter(temporary, content).write(options.largest_model_file);
    } catch (...) {
        std::error_code ignored;
        fs::remove_all(temporary, ignored);
        throw;
    }
    put_in_place(temporary, checkpoint);
    sync_folder(folder);
    remove_tree(temporary);  // the one that was replaced
    remove_old(folder, content.state.step, options.keep);
    return checkpoint;
}

}  // namespace sluice

// Files that are on the disk when the call returns: what a power failure must not undo.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace sluice {

// Written beside its place under "<path>.tmp", and there only once finish() has returned. An object destroyed before
// that leaves `path` as it was and no temporary file.
class DurableFile {
public:
    explicit DurableFile(std::filesystem::path path);  // throws EnvironmentError, as everything here
    ~DurableFile();
    DurableFile(const DurableFile&) = delete;
    DurableFile& operator=(const DurableFile&) = delete;

    void append(std::span<const std::byte> bytes);  // not buffered: give large pieces

    // Flushes the content to the disk and renames. The new name itself is durable after sync_folder() of its folder.
    void finish();

private:
    [[noreturn]] void fail(const char* call) const;

    std::filesystem::path path_, temporary_;
    int descriptor_ = -1;
};

// Flushes the names in a folder to the disk: files created, renamed and removed in it.
void sync_folder(const std::filesystem::path& folder);

}  // namespace sluice

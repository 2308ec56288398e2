// A file opened for reading at any place, without loading it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/units.h"

namespace sluice {

// Reads may come from several threads at once.
class InputFile {
public:
    // Throws InputError for what is not there, cannot be read or is not a regular file (a pipe would block for ever).
    explicit InputFile(std::filesystem::path path);
    ~InputFile();
    InputFile(InputFile&& other) noexcept;
    InputFile& operator=(InputFile&& other) noexcept;

    const std::filesystem::path& path() const { return path_; }
    Bytes size() const { return size_; }  // when it was opened
    int descriptor() const { return descriptor_; }

    // Fills `out` from byte `offset` on. Throws InputError where the file ends before `out` is full, so that a file
    // which another program cuts in the meantime is a message; EnvironmentError where the system fails.
    void read_at(std::int64_t offset, std::span<std::byte> out) const;

private:
    std::filesystem::path path_;
    int descriptor_ = -1;
    Bytes size_{};
};

}  // namespace sluice

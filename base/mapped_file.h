// A whole file as memory, read only: pages are loaded where they are touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/units.h"

namespace sluice {

// The bytes stay where they are while the object is moved. A file that another program cuts while it is mapped ends the
// process with SIGBUS where a lost page is touched: for files that are replaced by rename, as ours are, not
// overwritten.
class MappedFile {
public:
    // Throws as InputFile does, and EnvironmentError where the system cannot map it.
    explicit MappedFile(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;

    std::span<const std::byte> bytes() const { return bytes_; }

private:
    std::span<const std::byte> bytes_;
};

}  // namespace sluice

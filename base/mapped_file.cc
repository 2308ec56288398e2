#include "base/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"

namespace sluice {

MappedFile::MappedFile(const std::filesystem::path& path) {
    const InputFile file(path);
    const auto size = static_cast<std::size_t>(file.size().value);
    if (size == 0) return;
    void* const start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (start == MAP_FAILED) throw EnvironmentError(fmt::format("{}: mmap: {}", path.string(), std::strerror(errno)));
    bytes_ = {static_cast<const std::byte*>(start), size};
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
}

}  // namespace sluice

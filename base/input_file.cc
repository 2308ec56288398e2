#include "base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace sluice {

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
    // O_NONBLOCK: opening a pipe that nobody writes to must not wait. It changes nothing for regular files.
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor_ < 0) throw InputError(fmt::format("{}: cannot open: {}", path_.string(), std::strerror(errno)));
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
        ::close(std::exchange(descriptor_, -1));
        throw InputError(fmt::format("{}: {}, expected a file", path_.string(),
                                     S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file"));
    }
    size_ = Bytes{status.st_size};
}

InputFile::~InputFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(size_, other.size_);
    return *this;
}

void InputFile::read_at(std::int64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
        const ::ssize_t got = ::pread(descriptor_, out.data(), out.size(), offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw EnvironmentError(fmt::format("{}: read: {}", path_.string(), std::strerror(errno)));
        if (got == 0)
            throw InputError(
                fmt::format("{}: ends at byte {}, expected {} bytes more", path_.string(), offset, out.size()));
        out = out.subspan(static_cast<std::size_t>(got));
        offset += got;
    }
}

}  // namespace sluice

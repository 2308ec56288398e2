#include "base/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace sluice {

DurableFile::DurableFile(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
    temporary_ += ".tmp";
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("cannot open for writing");
}

DurableFile::~DurableFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
}

void DurableFile::append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ::ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail("cannot write");
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void DurableFile::finish() {
    if (::fsync(descriptor_) != 0) fail("cannot flush to the disk");
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename the finished file");
    if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot close");
}

void DurableFile::fail(const char* call) const {
    throw EnvironmentError(fmt::format("{}: {}: {}", path_.string(), call, std::strerror(errno)));
}

void sync_folder(const std::filesystem::path& folder) {
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool done = descriptor >= 0 && ::fsync(descriptor) == 0;
    const int reason = errno;
    if (descriptor >= 0) ::close(descriptor);
    if (!done)
        throw EnvironmentError(
            fmt::format("{}: cannot flush the folder to the disk: {}", folder.string(), std::strerror(reason)));
}

}  // namespace sluice

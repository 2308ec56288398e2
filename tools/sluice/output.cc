#include "tools/sluice/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "base/error.h"
#include "base/file.h"

namespace sluice {

void require_writable(const std::string& path) {
    namespace fs = std::filesystem;
    if (path == "-") return;
    std::error_code ignored;
    const fs::file_status status = fs::status(path, ignored);
    if (fs::is_directory(status)) throw EnvironmentError(fmt::format("{}: cannot write: is a directory", path));
    if (fs::exists(status) && !fs::is_regular_file(status))
        throw InputError(fmt::format("{}: is a device or a pipe, expected the name of a file", path));
    const fs::path parent = fs::path(path).parent_path();
    if (::access(parent.empty() ? "." : parent.c_str(), W_OK | X_OK) != 0)
        throw EnvironmentError(fmt::format("{}: cannot write into its folder: {}", path, std::strerror(errno)));
}

void write_output(const std::string& path, const std::function<void(std::ostream&)>& write) {
    if (path != "-") return write_file(path, write);
    write(std::cout);
    std::cout.flush();
    if (!std::cout) throw EnvironmentError("stdout: cannot write");
}

}  // namespace sluice

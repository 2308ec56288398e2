#include "base/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace sluice {

std::string read_file(const std::filesystem::path& path, Bytes limit) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error))
        throw InputError(fmt::format("{}: is a directory, expected a file", path.string()));
    std::ifstream in(path, std::ios::binary);
    if (!in) throw InputError(fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
    std::string content;
    std::string chunk(std::size_t{1} << 16, '\0');
    while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
        content.append(chunk, 0, static_cast<std::size_t>(in.gcount()));
        if (static_cast<std::int64_t>(content.size()) > limit.value)
            throw InputError(fmt::format("{}: larger than the limit of {} bytes", path.string(), limit.value));
    }
    if (in.bad()) throw InputError(fmt::format("{}: cannot read: {}", path.string(), std::strerror(errno)));
    return content;
}

void write_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write) {
    std::filesystem::path temporary = path;
    temporary += fmt::format(".{}.tmp", ::getpid());
    const auto give_up = [&](const char* call) {
        const int reason = errno;
        std::error_code ignored;
        std::filesystem::remove(temporary, ignored);
        throw EnvironmentError(fmt::format("{}: {}: {}", path.string(), call, std::strerror(reason)));
    };
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    if (!out) give_up("cannot open for writing");
    try {
        write(out);
    } catch (...) {
        out.close();
        std::error_code ignored;
        std::filesystem::remove(temporary, ignored);
        throw;
    }
    out.close();
    if (!out) give_up("cannot write");
    if (std::rename(temporary.c_str(), path.c_str()) != 0) give_up("cannot rename the finished file");
}

}  // namespace sluice

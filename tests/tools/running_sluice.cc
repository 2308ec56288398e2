#include "tests/tools/running_sluice.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>

namespace sluice {

RunningSluice::RunningSluice(const std::vector<std::string>& arguments) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    std::vector<std::string> words{SLUICE_COMMAND};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    child_ = ::fork();
    if (child_ < 0) throw std::runtime_error("fork");
    if (child_ == 0) {
        ::alarm(60);
        if (::dup2(ends[1], 1) == 1 && ::chdir(SLUICE_SOURCE_DIR) == 0) ::execv(pointers.front(), pointers.data());
        ::_exit(127);
    }
    ::close(ends[1]);
    out_ = ends[0];
}

RunningSluice::~RunningSluice() {
    kill();
    ::close(out_);
}

std::optional<std::string> RunningSluice::line() {
    std::array<char, 4096> chunk{};
    for (;;) {
        if (const std::size_t end = rest_.find('\n'); end != std::string::npos) {
            std::string found = rest_.substr(0, end);
            rest_.erase(0, end + 1);
            return found;
        }
        const ssize_t got = ::read(out_, chunk.data(), chunk.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return std::nullopt;
        rest_.append(chunk.data(), static_cast<std::size_t>(got));
    }
}

void RunningSluice::kill() {
    if (child_ < 0) return;
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
}

}  // namespace sluice

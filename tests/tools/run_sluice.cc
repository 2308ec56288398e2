#include "tests/tools/run_sluice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

extern char** environ;

namespace sluice {
namespace {

constexpr unsigned kTimeLimit = 60;  // seconds

[[noreturn]] void fail(const char* call) {
    throw std::runtime_error(fmt::format("{}: {}", call, std::strerror(errno)));
}

struct Channel {
    int ours = -1, theirs = -1;
};

Channel make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2");
    return {ends[0], ends[1]};
}

Channel make_terminal() {
    const int ours = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ours < 0 || ::grantpt(ours) != 0 || ::unlockpt(ours) != 0) fail("posix_openpt");
    const int theirs = ::open(::ptsname(ours), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (theirs < 0) fail("open of a terminal");
    return {ours, theirs};
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (std::string& s : strings) result.push_back(s.data());
    result.push_back(nullptr);
    return result;
}

struct Program {
    std::vector<std::string> words, environment;
    RunOptions options;
    Channel out, err;
};

// In the child: never returns.
[[noreturn]] void become(Program& program) {
    std::vector<char*> words = pointers(program.words), variables = pointers(program.environment);
    int out = program.out.theirs;
    if (!program.options.out_file.empty()) out = ::open(program.options.out_file.c_str(), O_WRONLY);
    if (program.options.fixed_addresses) ::personality(ADDR_NO_RANDOMIZE);
    ::alarm(kTimeLimit);
    const bool ready = ::dup2(out, 1) == 1 && ::dup2(program.err.theirs, 2) == 2 && ::chdir(SLUICE_SOURCE_DIR) == 0;
    if (ready) ::execve(words.front(), words.data(), variables.data());
    ::_exit(127);
}

// Both channels at once, so that neither side waits for the other. A terminal ends with EIO instead of an end of file.
void collect(std::array<pollfd, 2> channels, std::array<std::string*, 2> texts) {
    std::array<char, 1 << 16> chunk{};
    while (channels[0].fd >= 0 || channels[1].fd >= 0) {
        if (::poll(channels.data(), channels.size(), -1) < 0 && errno != EINTR) fail("poll");
        for (std::size_t i = 0; i < channels.size(); ++i) {
            if (channels[i].fd < 0 || channels[i].revents == 0) continue;
            const ssize_t got = ::read(channels[i].fd, chunk.data(), chunk.size());
            if (got > 0)
                texts[i]->append(chunk.data(), static_cast<std::size_t>(got));
            else
                channels[i].fd = -1;
        }
    }
}

}  // namespace

bool terminals_exist() {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal >= 0) ::close(terminal);
    return terminal >= 0;
}

Finished run_sluice(const std::vector<std::string>& arguments, const RunOptions& options) {
    Program program{{SLUICE_COMMAND}, options.environment, options, make_pipe(), {}};
    program.err = options.terminal ? make_terminal() : make_pipe();
    program.words.insert(program.words.end(), arguments.begin(), arguments.end());
    for (char** variable = environ; *variable != nullptr; ++variable) program.environment.emplace_back(*variable);

    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) become(program);
    ::close(program.out.theirs);
    ::close(program.err.theirs);
    Finished finished;
    collect({pollfd{program.out.ours, POLLIN, 0}, pollfd{program.err.ours, POLLIN, 0}}, {&finished.out, &finished.err});
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) fail("waitpid");
    ::close(program.out.ours);
    ::close(program.err.ours);
    finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return finished;
}

Finished run_sluice(const std::string& arguments, const RunOptions& options) {
    std::istringstream in(arguments);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    return run_sluice(words, options);
}

}  // namespace sluice

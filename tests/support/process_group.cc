#include "tests/support/process_group.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/error.h"

namespace sluice {

ProcessGroup::~ProcessGroup() {
    for (Running& process : processes_) {
        if (!process.reaped) {
            kill(-process.pid, SIGKILL);
            waitpid(process.pid, nullptr, 0);
        }
        close(process.output), close(process.errors);
    }
}

void ProcessGroup::start(const std::vector<std::string>& command, const std::vector<std::string>& variables) {
    std::array<int, 2> out{}, err{};
    if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) throw EnvironmentError("pipe2");
    std::vector<char*> words, environment;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& word : variables) environment.push_back(const_cast<char*>(word.c_str()));
    for (char** v = environ; *v != nullptr; ++v) environment.push_back(*v);
    words.push_back(nullptr), environment.push_back(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw EnvironmentError("fork");
    if (pid == 0) {
        setpgid(0, 0), alarm(120), prctl(PR_SET_PDEATHSIG, SIGKILL);  // whatever becomes of the test
        dup2(out[1], STDOUT_FILENO), dup2(err[1], STDERR_FILENO);
        execve(words[0], words.data(), environment.data());
        _exit(127);
    }
    setpgid(pid, pid);  // whoever comes first
    close(out[1]), close(err[1]);
    fcntl(out[0], F_SETFL, O_NONBLOCK), fcntl(err[0], F_SETFL, O_NONBLOCK);
    processes_.push_back({pid, out[0], err[0], "", "", false});
}

void ProcessGroup::signal(std::size_t process, int number) const { kill(processes_[process].pid, number); }

void ProcessGroup::drain(Running& process) {
    std::array<char, 4096> piece;
    for (const auto& [from, to] :
         {std::pair(process.output, &process.text), std::pair(process.errors, &process.error_text)})
        for (ssize_t got = 0; (got = read(from, piece.data(), piece.size())) > 0;)
            to->append(piece.data(), static_cast<std::size_t>(got));
}

std::size_t ProcessGroup::lines(std::size_t process) {
    drain(processes_[process]);
    const std::string& text = processes_[process].text;
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

bool ProcessGroup::left_nothing(std::size_t process) const {
    return kill(-processes_[process].pid, 0) != 0 && errno == ESRCH;
}

std::optional<EndedProcess> ProcessGroup::wait(std::size_t process, std::chrono::steady_clock::time_point until) {
    Running& running = processes_[process];
    for (int status = 0;;) {
        drain(running);
        if (waitpid(running.pid, &status, WNOHANG) == running.pid) {
            running.reaped = true;
            drain(running);
            if (WIFEXITED(status)) return EndedProcess{WEXITSTATUS(status), 0, running.text, running.error_text};
            return EndedProcess{-1, WTERMSIG(status), running.text, running.error_text};
        }
        if (std::chrono::steady_clock::now() >= until) return std::nullopt;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

}  // namespace sluice

#include "tests/runtime/rendezvous/process_group.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "base/error.h"

namespace sluice {

ProcessGroup::~ProcessGroup() {
    for (Running& process : processes_) {
        if (!process.reaped) {
            kill(process.pid, SIGKILL);
            waitpid(process.pid, nullptr, 0);
        }
        close(process.output);
    }
}

void ProcessGroup::start(const std::vector<std::string>& command, const std::vector<std::string>& variables) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw EnvironmentError("pipe2");
    std::vector<char*> words, environment;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    for (const std::string& word : variables) environment.push_back(const_cast<char*>(word.c_str()));
    for (char** v = environ; *v != nullptr; ++v) environment.push_back(*v);
    words.push_back(nullptr), environment.push_back(nullptr);
    const pid_t pid = fork();
    if (pid < 0) throw EnvironmentError("fork");
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execve(words[0], words.data(), environment.data());
        _exit(127);
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    processes_.push_back({pid, ends[0], "", false});
}

void ProcessGroup::signal(std::size_t process, int number) const { kill(processes_[process].pid, number); }

void ProcessGroup::drain(Running& process) {
    std::array<char, 4096> piece;
    for (ssize_t got = 0; (got = read(process.output, piece.data(), piece.size())) > 0;)
        process.text.append(piece.data(), static_cast<std::size_t>(got));
}

std::size_t ProcessGroup::lines(std::size_t process) {
    drain(processes_[process]);
    const std::string& text = processes_[process].text;
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::optional<EndedProcess> ProcessGroup::wait(std::size_t process, std::chrono::steady_clock::time_point until) {
    Running& running = processes_[process];
    for (int status = 0;;) {
        drain(running);
        if (waitpid(running.pid, &status, WNOHANG) == running.pid) {
            running.reaped = true;
            drain(running);
            if (WIFEXITED(status)) return EndedProcess{WEXITSTATUS(status), 0, running.text};
            return EndedProcess{-1, WTERMSIG(status), running.text};
        }
        if (std::chrono::steady_clock::now() >= until) return std::nullopt;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

}  // namespace sluice

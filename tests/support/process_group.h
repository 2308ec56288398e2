// Processes of a test, each with a process group of its own: started, killed, and waited for.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct EndedProcess {
    int code = -1;       // of exit; -1 when a signal ended it
    int signal = 0;      // that ended it
    std::string output;  // of stdout
    std::string errors;  // of stderr
};

class ProcessGroup {
public:
    ~ProcessGroup();  // kills and reaps what still runs

    // `variables`: "NAME=VALUE", beside those of this process.
    void start(const std::vector<std::string>& command, const std::vector<std::string>& variables);
    void signal(std::size_t process, int number) const;  // not to what it has started
    // The lines that it has printed so far, on stdout. To be asked often: a full pipe keeps a process waiting.
    std::size_t lines(std::size_t process);
    // Of a process that has ended: whether what it had started has ended, too.
    bool left_nothing(std::size_t process) const;
    // Nothing when it still runs at `until`.
    std::optional<EndedProcess> wait(std::size_t process, std::chrono::steady_clock::time_point until);

private:
    struct Running {
        pid_t pid = -1;
        int output = -1, errors = -1;
        std::string text, error_text;
        bool reaped = false;
    };
    static void drain(Running& process);

    std::vector<Running> processes_;
};

}  // namespace sluice

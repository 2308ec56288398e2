// Processes of a test: started, killed, and waited for.
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
};

class ProcessGroup {
public:
    ~ProcessGroup();  // kills and reaps what still runs

    // `variables`: "NAME=VALUE", beside those of this process.
    void start(const std::vector<std::string>& command, const std::vector<std::string>& variables);
    void signal(std::size_t process, int number) const;
    // The lines that it has printed so far.
    std::size_t lines(std::size_t process);
    // Nothing when it still runs at `until`.
    std::optional<EndedProcess> wait(std::size_t process, std::chrono::steady_clock::time_point until);

private:
    struct Running {
        pid_t pid = -1;
        int output = -1;
        std::string text;
        bool reaped = false;
    };
    static void drain(Running& process);

    std::vector<Running> processes_;
};

}  // namespace sluice

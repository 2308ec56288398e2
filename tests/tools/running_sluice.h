// The built command while it runs: its lines as they come, and its end whenever the test wants it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace sluice {

class RunningSluice {
public:
    explicit RunningSluice(const std::vector<std::string>& arguments);
    ~RunningSluice();  // kills it if it still runs
    RunningSluice(const RunningSluice&) = delete;
    RunningSluice& operator=(const RunningSluice&) = delete;

    std::optional<std::string> line();  // of stdout, waits for it; nothing after the last one
    void kill();                        // SIGKILL, and waits for the end

private:
    pid_t child_ = -1;
    int out_ = -1;
    std::string rest_;
};

}  // namespace sluice

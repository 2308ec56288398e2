#include "sim/child_process.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.h"

namespace sluice {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// What the child has to say when it fails.
struct LastWords {
    char text[512];
    bool internal;
};

constexpr int kFailed = 1;  // the child's exit code when LastWords tell why

void say(LastWords& words, const char* text, bool internal) {
    words.internal = internal;
    std::strncpy(words.text, text, sizeof words.text - 1);  // the page is zeroed: always terminated
}

[[noreturn]] void run_child(const std::function<void()>& work, pid_t parent, LastWords& words) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kFailed);  // it died before the line above
    try {
        work();
        ::_exit(0);
    } catch (const InternalError& e) {
        say(words, e.what(), true);
    } catch (const std::exception& e) {
        say(words, e.what(), false);
    } catch (...) {
        say(words, "an exception of unknown type", false);
    }
    ::_exit(kFailed);
}

class Child {
public:
    explicit Child(pid_t pid) : pid_(pid) {}
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        if (waited_) return;
        ::kill(pid_, SIGKILL);
        wait(0);
    }

    // Has it ended? Blocks until then unless `options` is WNOHANG.
    bool wait(int options) {
        pid_t got = 0;
        do got = ::waitpid(pid_, &status_, options);
        while (got < 0 && errno == EINTR);
        if (got < 0) throw EnvironmentError(fmt::format("waitpid: {}", reason(errno)));
        waited_ = got == pid_;
        return waited_;
    }
    int status() const { return status_; }

private:
    pid_t pid_;
    int status_ = 0;
    bool waited_ = false;
};

void sleep_for(long milliseconds) {
    const timespec time{0, milliseconds * 1'000'000};
    ::nanosleep(&time, nullptr);
}

// Short naps at first, so that a short run is not made longer.
void wait_polling(Child& child, const std::function<void()>& poll) {
    constexpr long kPeriod = 200;
    long nap = 1, since_poll = 0;
    while (!child.wait(WNOHANG)) {
        sleep_for(nap);
        since_poll += nap;
        nap = std::min(2 * nap, kPeriod);
        if (since_poll >= kPeriod) {
            since_poll = 0;
            poll();
        }
    }
}

void check_status(std::string_view what, int status, const LastWords& words) {
    if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        throw EnvironmentError(
            fmt::format("{}: the child process died of signal {} ({})", what, signal, ::strsignal(signal)));
    }
    const int code = WEXITSTATUS(status);
    if (code == 0) return;
    if (words.text[0] == '\0') {
        throw EnvironmentError(fmt::format("{}: the child process ended with exit code {}", what, code));
    }
    if (words.internal) throw InternalError(words.text);
    throw EnvironmentError(fmt::format("{}: {}", what, words.text));
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) : bytes_(std::max<std::size_t>(1, bytes)) {
    data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED) throw EnvironmentError(fmt::format("mmap of {} bytes: {}", bytes_, reason(errno)));
}

SharedMemory::~SharedMemory() { ::munmap(data_, bytes_); }

namespace {

// A child at work, and what it says at last.
class Job {
public:
    Job(std::string_view what, const std::function<void()>& work) : what_(what), words_(sizeof(LastWords)) {
        LastWords& words = *static_cast<LastWords*>(words_.data());
        const pid_t parent = ::getpid();
        std::fflush(nullptr);  // else what waits in the parent's buffers could be written by the child too
        const pid_t pid = ::fork();
        if (pid < 0) throw EnvironmentError(fmt::format("{}: fork: {}", what, reason(errno)));
        if (pid == 0) run_child(work, parent, words);
        child_.emplace(pid);
    }

    void finish(const std::function<void()>& poll) {
        if (poll)
            wait_polling(*child_, poll);
        else
            child_->wait(0);
        check_status(what_, child_->status(), *static_cast<const LastWords*>(words_.data()));
    }

private:
    std::string_view what_;
    SharedMemory words_;
    std::optional<Child> child_;
};

}  // namespace

void run_in_child(std::string_view what, const std::function<void()>& work, const std::function<void()>& poll) {
    Job(what, work).finish(poll);
}

void run_in_children(std::string_view what, const std::vector<std::function<void()>>& work, std::size_t at_once) {
    if (at_once == 0) at_once = static_cast<std::size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    std::deque<Job> running;
    for (const std::function<void()>& each : work) {
        if (running.size() == at_once) {
            running.front().finish({});
            running.pop_front();
        }
        running.emplace_back(what, each);
    }
    for (; !running.empty(); running.pop_front()) running.front().finish({});
}

}  // namespace sluice

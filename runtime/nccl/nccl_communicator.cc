#include "runtime/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/error.h"

namespace sluice::cuda {

void NcclCommunicator::begin(const NcclId& id, std::uint32_t members) {
    const std::lock_guard lock(mutex_);
    const int code = nccl_.begin(&comm_, static_cast<int>(members), &id, static_cast<int>(member_));
    if (code != kNcclSuccess && code != kNcclInProgress) throw EnvironmentError(failure(code, "beginning"));
}

void NcclCommunicator::finish(const std::function<void()>& interrupt) {
    for (;;) {
        int now = kNcclSuccess;
        {
            const std::lock_guard lock(mutex_);
            expect_open();
            now = state();
        }
        if (now == kNcclSuccess) return;
        if (now != kNcclInProgress) throw EnvironmentError(failure(now, "beginning"));
        if (monitor_.stopped()) throw RunStopped{};
        if (interrupt) interrupt();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

void NcclCommunicator::expect_open() const {
    if (aborted_ || monitor_.stopped()) throw RunStopped{};
    if (comm_ == nullptr) throw InternalError(name_ + ": the communicator has not been begun");
}

// The first call to a partner connects, which may take long; later ones are done within microseconds.
void NcclCommunicator::settle(int code, std::string_view what) {
    while (code == kNcclInProgress) {
        std::this_thread::yield();
        const std::lock_guard lock(mutex_);
        expect_open();
        code = state();
    }
    if (code != kNcclSuccess) throw EnvironmentError(failure(code, what));
}

int NcclCommunicator::state() {
    int now = kNcclSuccess;
    const int code = nccl_.state(comm_, &now);
    return code == kNcclSuccess ? now : code;
}

// A call that is being made says itself how it went: whoever watches others, too, does not wait for it.
void NcclCommunicator::check() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || aborted_ || comm_ == nullptr || monitor_.stopped()) return;
    const int now = state();
    if (now != kNcclSuccess && now != kNcclInProgress)
        monitor_.fail(FailureKind::kEnvironment, failure(now, "a call under way"));
}

// It may wait for the GPU: without the lock, so that a thread which asks about its call is told at once that it is
// over.
void NcclCommunicator::abort() {
    {
        const std::lock_guard lock(mutex_);
        if (aborted_) return;
        aborted_ = true;  // no call begins any more, and none is being made
    }
    if (comm_ != nullptr) nccl_.abort(comm_);
}

std::string NcclCommunicator::failure(int code, std::string_view what) const {
    const char* const last = nccl_.last_error();
    std::string text = fmt::format("{}, {}: NCCL says: {}", name_, what, nccl_.describe(code));
    if (last != nullptr && *last != '\0') text += fmt::format(" ({})", last);
    for (char& c : text)
        if (c == '\n') c = ' ';
    return text;
}

}  // namespace sluice::cuda

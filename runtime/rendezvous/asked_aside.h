// A question whose answer may take long, or never come, for a thread that must not wait for it: a thread of its own
// puts it, one time after another.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice {

template <class Answer>
class AskedAside {
public:
    // An exception out of `question` is no answer.
    explicit AskedAside(std::function<Answer()> question)
        : question_(std::move(question)), thread_([this] { answer_questions(); }) {}
    ~AskedAside() { end(); }
    AskedAside(const AskedAside&) = delete;
    AskedAside& operator=(const AskedAside&) = delete;

    // Asks now. True when the answer has come within `patience`. False, too, when there was no asking because the one
    // before is still unanswered; an answer that comes late will be the last one all the same. Any thread.
    bool ask(std::chrono::milliseconds patience) {
        std::unique_lock lock(mutex_);
        const auto until = std::chrono::steady_clock::now() + patience;
        const auto quiet = [this] { return over_ || ended_ == asked_; };
        if (!changed_.wait_until(lock, until, quiet) || over_) return false;
        ++asked_;
        changed_.notify_all();
        return changed_.wait_until(lock, until, quiet) && !over_ && answered_;
    }

    Answer last() const {  // Answer{} before the first
        const std::lock_guard lock(mutex_);
        return last_;
    }

    // No question is put any more. Returns when the one before is answered, however long that takes; others may still
    // ask meanwhile, and get no answer. By one thread.
    void end() {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable()) thread_.join();
    }

private:
    void answer_questions() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return over_ || ended_ != asked_; });
            if (over_) return;
            lock.unlock();
            bool answered = false;
            Answer answer{};
            try {
                answer = question_();
                answered = true;
            } catch (const std::exception&) {
            }
            lock.lock();
            answered_ = answered;
            if (answered) last_ = std::move(answer);
            ++ended_;
            changed_.notify_all();
        }
    }

    const std::function<Answer()> question_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t asked_ = 0, ended_ = 0;
    bool answered_ = false;  // the last that ended
    Answer last_{};
    bool over_ = false;
    std::thread thread_;  // last
};

}  // namespace sluice

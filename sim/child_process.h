// A function run in a forked child, with memory that both processes see.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

namespace sluice {

// Zeroed pages that stay shared across fork(). Untouched pages cost nothing.
class SharedMemory {
public:
    explicit SharedMemory(std::size_t bytes);  // throws EnvironmentError
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    void* data() const { return data_; }

private:
    void* data_;
    std::size_t bytes_;
};

// Runs `work` in a forked child and waits for it. `poll`, when not empty, is called in the parent about five times a
// second meanwhile; if it throws, the child is ended and the exception passes. The child shares nothing but
// SharedMemory: its other writes are lost, no destructor and no atexit handler of the parent runs in it, and it dies
// with the parent. An InternalError that `work` throws is thrown again here. Throws EnvironmentError, naming `what`,
// when there is no child to be had, when it dies of a signal, or when `work` throws anything else. Requires: the
// process has no other thread that holds a lock `work` needs.
void run_in_child(std::string_view what, const std::function<void()>& work, const std::function<void()>& poll);

// The same for several at a time, at most `at_once` of them (0: as many as the machine has processors), begun in order.
// Returns when all have ended; the first failure in order is thrown after the rest has been ended.
void run_in_children(std::string_view what, const std::vector<std::function<void()>>& work, std::size_t at_once);

}  // namespace sluice

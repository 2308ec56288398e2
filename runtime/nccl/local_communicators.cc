#include "runtime/nccl/local_communicators.h"

#include <chrono>
#include <exception>
#include <stop_token>
#include <system_error>
#include <vector>

namespace sluice::cuda {
namespace {

constexpr std::chrono::milliseconds kLook{20}, kOpen{1};

}  // namespace

LocalCommunicators::~LocalCommunicators() {
    watch_ = {};  // which may have begun already
    abort_all();
    drain();
    gate_keeper_ = {};
}

void LocalCommunicators::watch(RunMonitor& monitor) {
    watch_ = std::jthread([this, &monitor](const std::stop_token& stop) {
        for (; !stop.stop_requested(); std::this_thread::sleep_for(kLook)) {
            if (monitor.stopped()) return abort_all();
            for (NcclCommunicator& comm : all_) comm.check();
        }
    });
}

void LocalCommunicators::keep_gates_open() {
    if (!gates_ || !gates_->any() || gate_keeper_.joinable()) return;
    try {
        gate_keeper_ = std::jthread([this](const std::stop_token& stop) {
            for (; !stop.stop_requested(); std::this_thread::sleep_for(kOpen)) gates_->open();
        });
    } catch (const std::system_error&) {  // no more threads
        gates_->open();
    }
}

// What is left on the GPUs has failed, or comes to its end with the gates open.
void LocalCommunicators::drain() noexcept {
    if (!gates_) return;
    for (const DevicePart* const device : devices_) {
        try {
            device->make_current();
            gates_->drain();
        } catch (const std::exception&) {  // a GPU that has failed does nothing more
        }
    }
}

void LocalCommunicators::abort_all() {
    keep_gates_open();
    std::vector<std::jthread> threads;
    for (NcclCommunicator& comm : all_) {
        try {
            threads.emplace_back([&comm] { comm.abort(); });
        } catch (const std::system_error&) {  // no more threads: the others are on their way
            comm.abort();
        }
    }
}

}  // namespace sluice::cuda

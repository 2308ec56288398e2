#include "runtime/nccl/local_communicators.h"

#include <chrono>
#include <stop_token>
#include <system_error>
#include <vector>

namespace sluice::cuda {
namespace {

constexpr std::chrono::milliseconds kLook{20};

}  // namespace

LocalCommunicators::~LocalCommunicators() {
    watch_ = {};  // which may have begun already
    abort_all();
}

void LocalCommunicators::watch(RunMonitor& monitor) {
    watch_ = std::jthread([this, &monitor](const std::stop_token& stop) {
        for (; !stop.stop_requested(); std::this_thread::sleep_for(kLook)) {
            if (monitor.stopped()) return abort_all();
            for (NcclCommunicator& comm : all_) comm.check();
        }
    });
}

void LocalCommunicators::abort_all() {
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

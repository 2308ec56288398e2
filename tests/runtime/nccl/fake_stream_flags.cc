#include "tests/runtime/nccl/fake_stream_flags.h"

#include <chrono>
#include <thread>

#include "base/error.h"

namespace sluice::cuda {
namespace {

std::atomic<std::size_t> waiting{0}, waits{0}, pinned{0};

bool pin(std::span<std::byte>) { return ++pinned > 0; }
void unpin(std::span<std::byte>) noexcept { --pinned; }
void set(Stream, Flag* flag, std::uint32_t value) { flag->value = value; }
void wait(Stream, const Flag* flag, std::uint32_t value) {
    const auto reached = [&] { return static_cast<std::int32_t>(flag->value - value) >= 0; };
    ++waits, ++waiting;
    for (int i = 0; !reached() && i < 10'000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --waiting;
    if (!reached()) throw EnvironmentError("a stream waits for ever");
}
void drain() {}

}  // namespace

const StreamFlags& fake_stream_flags() {
    static const StreamFlags functions{pin, unpin, set, wait, drain};
    return functions;
}

void reset_fake_stream_flags() { waits = 0; }
std::size_t fake_streams_waiting() { return waiting; }
std::size_t fake_stream_waits() { return waits; }
std::size_t fake_pages_pinned() { return pinned; }

}  // namespace sluice::cuda

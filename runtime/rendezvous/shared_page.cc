#include "runtime/rendezvous/shared_page.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "base/error.h"

namespace sluice {
namespace {

using Token = decltype(SharedPagePlace::token);

std::size_t whole_pages(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return (bytes + page - 1) / page * page;
}

std::span<std::byte> map(const Descriptor& descriptor, std::size_t bytes) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    if (memory == MAP_FAILED) return {};
    return {static_cast<std::byte*>(memory), bytes};
}

Token token_of(std::span<const std::byte> memory) {
    Token token;
    std::memcpy(&token, memory.data(), sizeof token);
    return token;
}

[[noreturn]] void fail() {
    throw EnvironmentError(fmt::format("memory that processes share: {}", std::strerror(errno)));
}

}  // namespace

SharedPage SharedPage::make(std::size_t bytes) {
    Descriptor descriptor(memfd_create("sluice", MFD_CLOEXEC));
    const std::size_t size = whole_pages(kHead + bytes);
    if (!descriptor || ftruncate(descriptor.get(), static_cast<off_t>(size)) != 0) fail();
    const std::span<std::byte> memory = map(descriptor, size);
    if (memory.empty()) fail();
    std::random_device random;
    Token token;
    for (std::uint64_t& half : token) half = (std::uint64_t{random()} << 32) | random();
    std::memcpy(memory.data(), &token, sizeof token);
    return {std::move(descriptor), memory};
}

// Whatever has that number elsewhere is looked at, and not written to, until the token is seen.
std::optional<SharedPage> SharedPage::open(const SharedPagePlace& place, std::size_t bytes) {
    const std::string path = fmt::format("/proc/{}/fd/{}", place.process, place.descriptor);
    Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status {};
    const std::size_t size = whole_pages(kHead + bytes);
    if (!descriptor || fstat(descriptor.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_size != static_cast<off_t>(size))
        return std::nullopt;
    const std::span<std::byte> memory = map(descriptor, size);
    if (memory.empty()) return std::nullopt;
    SharedPage page(std::move(descriptor), memory);
    if (token_of(memory) != place.token) return std::nullopt;
    return page;
}

SharedPage::SharedPage(SharedPage&& other) noexcept
    : descriptor_(std::move(other.descriptor_)), memory_(std::exchange(other.memory_, {})) {}

SharedPage::~SharedPage() {
    if (!memory_.empty()) munmap(memory_.data(), memory_.size());
}

SharedPagePlace SharedPage::place() const {
    return {static_cast<std::uint32_t>(getpid()), static_cast<std::uint32_t>(descriptor_.get()), token_of(memory_)};
}

}  // namespace sluice

#include "runtime/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format_units.h"

namespace sluice {
namespace {

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

[[noreturn]] void refuse(const char* call, Bytes bytes, const std::string& name) {
    throw EnvironmentError(fmt::format("{}: {} of {} failed: {}", name, call, format(bytes), std::strerror(errno)));
}

// Empty where the system does not say.
std::optional<Bytes> available_memory() {
    std::string text;
    try {
        text = read_file("/proc/meminfo", 1_MiB);
    } catch (const InputError&) {
        return std::nullopt;
    }
    constexpr std::string_view kKey = "MemAvailable:";
    const std::size_t key = text.find(kKey);
    if (key == std::string::npos) return std::nullopt;
    const std::size_t digits = text.find_first_of("0123456789", key + kKey.size());
    if (digits == std::string::npos) return std::nullopt;
    std::int64_t kib = 0;
    std::from_chars(text.data() + digits, text.data() + text.size(), kib);
    return 1_KiB * kib;
}

}  // namespace

Arena::Arena(Bytes bytes, const std::string& name) {
    SLUICE_CHECK(bytes >= 0_B, "arenas have a size");
    if (bytes == 0_B) return;
    const std::size_t page = page_bytes();
    const auto used = static_cast<std::size_t>(round_up(bytes, kArenaAlignment).value);
    const std::size_t inner = (used + page - 1) / page * page;
    mapped_ = inner + 2 * page;
    void* const mapping = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) refuse("mmap", bytes, name);
    mapping_ = static_cast<std::byte*>(mapping);
    if (::mprotect(mapping_ + page, inner, PROT_READ | PROT_WRITE) != 0) {
        const int reason = errno;
        ::munmap(mapping_, mapped_);
        errno = reason;
        refuse("mprotect", bytes, name);
    }
    bytes_ = {mapping_ + page + (inner - used), static_cast<std::size_t>(bytes.value)};
}

Arena::~Arena() {
    if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

Arena::Arena(Arena&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      bytes_(std::exchange(other.bytes_, {})) {}

Arena& Arena::operator=(Arena&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

void require_memory(Bytes needed, const std::string& what) {
    const std::optional<Bytes> available = available_memory();
    if (!available || needed <= *available) return;
    throw EnvironmentError(
        fmt::format("{} need {}, but this machine has {} of memory available: use a smaller scenario", what,
                    format(needed), format(*available)));
}

void poison(std::span<std::byte> bytes) {
    std::size_t at = 0;
    for (; at + sizeof(kPoison) <= bytes.size(); at += sizeof(kPoison))
        std::memcpy(bytes.data() + at, &kPoison, sizeof(kPoison));
    if (at < bytes.size()) std::memcpy(bytes.data() + at, &kPoison, bytes.size() - at);
}

bool is_poison(float value) {
    constexpr std::uint32_t kQuiet = 0x00400000U, kSign = 0x80000000U;
    return (std::bit_cast<std::uint32_t>(value) & ~(kQuiet | kSign)) == (kPoison & ~kQuiet);
}

}  // namespace sluice

// Memory that processes of one host share. No file names it: it ends with the last process that has it,
// however that ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/rendezvous/descriptor.h"

namespace sluice {

// How another process finds a page.
struct SharedPagePlace {
    std::uint32_t process = 0, descriptor = 0;  // as the operating system numbers them
    std::array<std::uint64_t, 2> token{};       // random, in the page: whoever finds another page sees that
};

class SharedPage {
public:
    // So many bytes and more, of zeros. Throws EnvironmentError.
    static SharedPage make(std::size_t bytes);
    // Nothing where the place is on another host, in another container, or of a process that has ended.
    static std::optional<SharedPage> open(const SharedPagePlace& place, std::size_t bytes);
    ~SharedPage();
    SharedPage(SharedPage&& other) noexcept;
    SharedPage& operator=(SharedPage&&) = delete;

    SharedPagePlace place() const;                          // in this process
    std::span<std::byte> pages() const { return memory_; }  // whole ones; what they begin with is the token
    std::span<std::byte> bytes() const { return memory_.subspan(kHead); }

private:
    static constexpr std::size_t kHead = 64;  // a line of the cache

    SharedPage(Descriptor descriptor, std::span<std::byte> memory)
        : descriptor_(std::move(descriptor)), memory_(memory) {}

    Descriptor descriptor_;
    std::span<std::byte> memory_;
};

}  // namespace sluice

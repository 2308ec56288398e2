// Any bytes as a token file of llm.c: an InputError of one line, or a layout that lies inside the file.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/error.h"
#include "runtime/data/llmc_layout.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
    const sluice::Bytes file_size{static_cast<std::int64_t>(size)};
    try {
        const auto header = file.first(std::min(size, static_cast<std::size_t>(sluice::kLlmcHeader.value)));
        const sluice::TokenLayout layout = sluice::llmc_layout(header, file_size, "fuzz");
        if (layout.tokens.value < 0 ||
            layout.first + layout.tokens.value * bytes_per_token(layout.encoding) != file_size)
            std::abort();
    } catch (const sluice::InputError& error) {
        if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
    }
    return 0;
}

// Any bytes as the index of a Megatron token file, beside data of several sizes: an InputError of one line, or a layout
// that covers the data exactly.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/error.h"
#include "runtime/data/megatron_layout.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> index(reinterpret_cast<const std::byte*>(data), size);
    for (const sluice::Bytes data_size : {sluice::Bytes{0}, sluice::Bytes{8}, sluice::Bytes{16}}) {
        try {
            const sluice::TokenLayout layout = sluice::megatron_layout(index, "fuzz.idx", data_size, "fuzz.bin");
            if (layout.first.value != 0 || layout.tokens.value * bytes_per_token(layout.encoding) != data_size)
                std::abort();
        } catch (const sluice::InputError& error) {
            if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
        }
    }
    return 0;
}

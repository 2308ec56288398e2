// Any bytes as a safetensors file: an InputError of one line, or tensors that lie inside the file one after another,
// each with the bytes of its type and shape, under different names.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/error.h"
#include "runtime/checkpoint/safetensors_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
    try {
        std::size_t bytes = 0, before = 0;
        const sluice::SafetensorsContent content = sluice::parse_safetensors(file, "fuzz");
        for (const sluice::TensorView& tensor : content.tensors) {
            if (&tensor != content.tensors.data() && !(content.tensors[before++].name < tensor.name)) std::abort();
            auto expected = static_cast<std::size_t>(bytes_per_element(tensor.type).value);
            for (const std::int64_t extent : tensor.shape) expected *= static_cast<std::size_t>(extent);
            if (tensor.bytes.size() != expected) std::abort();
            if (!tensor.bytes.empty() &&
                (tensor.bytes.data() < file.data() || tensor.bytes.data() + tensor.bytes.size() > file.data() + size))
                std::abort();
            bytes += tensor.bytes.size();
        }
        if (bytes + 8 > size) std::abort();
    } catch (const sluice::InputError& error) {
        if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
    }
    return 0;
}

// Reads tensors from files in the safetensors format (https://github.com/huggingface/safetensors): eight bytes of
// little-endian header length, a JSON header that names type, shape and place of every tensor, then their bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "runtime/checkpoint/tensor_view.h"

namespace sluice {

struct SafetensorsContent {
    std::vector<TensorView> tensors;  // sorted by name; views into the bytes that were parsed
    std::map<std::string, std::string> metadata;
};

// Takes what the format's reference implementation takes, apart from keys that it ignores: headers of up to 100 MB,
// tensors one after another without gaps or overlap from the first byte after the header to the end of the file, each
// as long as its type and shape say. Throws InputError "origin: ..." for everything else.
SafetensorsContent parse_safetensors(std::span<const std::byte> file, std::string_view origin);

// A mapped file: bytes are read from the disk when they are first touched.
class SafetensorsFile {
public:
    explicit SafetensorsFile(const std::filesystem::path& path);  // throws as MappedFile and parse_safetensors

    const std::vector<TensorView>& tensors() const { return content_.tensors; }
    const std::map<std::string, std::string>& metadata() const { return content_.metadata; }

private:
    MappedFile file_;
    SafetensorsContent content_;
};

}  // namespace sluice

// Writes tensors into a file in the safetensors format, piece by piece: no tensor is ever held as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/checkpoint/file_record.h"
#include "runtime/checkpoint/tensor_type.h"

namespace sluice {

struct TensorToWrite {
    std::string name;  // of the model's library, for instance "model.layers.0.mlp.up_proj.weight"; not empty, UTF-8
    TensorType type = TensorType::kF32;
    std::vector<std::int64_t> shape;  // row-major
    // Fills a piece that begins `offset` bytes into the tensor. Called for pieces in order, each a whole number of
    // elements and of at most 4 MiB.
    std::function<void(Bytes offset, std::span<std::byte> piece)> fill;

    Bytes bytes() const;
};

// Fills values from element `first` on, in row-major order.
using FillFloats = std::function<void(std::int64_t first, std::span<float> values)>;

TensorToWrite float_tensor(std::string name, std::vector<std::int64_t> shape, FillFloats fill);     // F32
TensorToWrite bfloat16_tensor(std::string name, std::vector<std::int64_t> shape, FillFloats fill);  // to nearest even
// `values` must live until the tensor has been written. Requires: as many values as the shape has.
TensorToWrite float_tensor(std::string name, std::vector<std::int64_t> shape, std::span<const float> values);

// The file is at `path`, flushed to the disk, when this returns; on any failure `path` is as it was. Larger elements
// come first, otherwise in the order given, so that all are aligned. Requires: names are all different. Throws
// EnvironmentError, and what `fill` throws.
FileRecord write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                             const std::map<std::string, std::string>& metadata);

}  // namespace sluice

#include "runtime/checkpoint/write_safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"

namespace sluice {
namespace {

constexpr std::int64_t kPiece = std::int64_t{4} << 20U;  // a multiple of every element's size

std::uint16_t to_bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (value != value) return static_cast<std::uint16_t>(bits >> 16U | 0x40U);  // rounding could turn it into infinity
    return static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16U & 1U)) >> 16U);
}

std::vector<const TensorToWrite*> file_order(std::span<const TensorToWrite> tensors) {
    std::vector<const TensorToWrite*> order;
    std::set<std::string_view> names{"", "__metadata__"};
    for (const TensorToWrite& tensor : tensors) {
        SLUICE_CHECK(names.insert(tensor.name).second, "tensors of a file have names, all different: " + tensor.name);
        order.push_back(&tensor);
    }
    std::stable_sort(order.begin(), order.end(), [](const TensorToWrite* a, const TensorToWrite* b) {
        return bytes_per_element(a->type) > bytes_per_element(b->type);
    });
    return order;
}

// Length and JSON, padded with spaces so that the tensors begin at a multiple of eight bytes.
std::string header_of(const std::vector<const TensorToWrite*>& order,
                      const std::map<std::string, std::string>& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    std::int64_t begin = 0;
    for (const TensorToWrite* tensor : order) {
        const std::int64_t end = begin + tensor->bytes().value;
        header[tensor->name] = {
            {"dtype", name(tensor->type)}, {"shape", tensor->shape}, {"data_offsets", {begin, end}}};
        begin = end;
    }
    std::string json = header.dump();
    json.resize((json.size() + 7) / 8 * 8, ' ');
    const auto bytes = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(json.size()));
    return std::string(bytes.begin(), bytes.end()) + json;
}

}  // namespace

Bytes TensorToWrite::bytes() const {
    std::int64_t total = bytes_per_element(type).value;
    for (const std::int64_t size : shape)
        SLUICE_CHECK(size >= 0 && !__builtin_mul_overflow(total, size, &total), "a tensor has a size: " + name);
    return Bytes{total};
}

TensorToWrite float_tensor(std::string name, std::vector<std::int64_t> shape, FillFloats fill) {
    constexpr auto kWidth = static_cast<std::int64_t>(sizeof(float));
    return {std::move(name), TensorType::kF32, std::move(shape),
            [fill = std::move(fill)](Bytes offset, std::span<std::byte> piece) {
                std::vector<float> values(piece.size() / sizeof(float));
                fill(offset.value / kWidth, values);
                std::memcpy(piece.data(), values.data(), piece.size());
            }};
}

TensorToWrite bfloat16_tensor(std::string name, std::vector<std::int64_t> shape, FillFloats fill) {
    constexpr auto kWidth = static_cast<std::int64_t>(sizeof(std::uint16_t));
    return {std::move(name), TensorType::kBf16, std::move(shape),
            [fill = std::move(fill)](Bytes offset, std::span<std::byte> piece) {
                std::vector<float> values(piece.size() / sizeof(std::uint16_t));
                fill(offset.value / kWidth, values);
                for (std::size_t i = 0; i < values.size(); ++i) {
                    const std::uint16_t rounded = to_bfloat16(values[i]);
                    std::memcpy(piece.data() + i * sizeof rounded, &rounded, sizeof rounded);
                }
            }};
}

TensorToWrite float_tensor(std::string name, std::vector<std::int64_t> shape, std::span<const float> values) {
    TensorToWrite tensor{std::move(name), TensorType::kF32, std::move(shape),
                         [bytes = std::as_bytes(values)](Bytes offset, std::span<std::byte> piece) {
                             std::memcpy(piece.data(), bytes.data() + offset.value, piece.size());
                         }};
    SLUICE_CHECK(tensor.bytes().value == static_cast<std::int64_t>(values.size_bytes()),
                 "a tensor has the values of its shape: " + tensor.name);
    return tensor;
}

FileRecord write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                             const std::map<std::string, std::string>& metadata) {
    const std::vector<const TensorToWrite*> order = file_order(tensors);
    RecordedFile file(path);
    file.append(header_of(order, metadata));
    std::vector<std::byte> piece(static_cast<std::size_t>(kPiece));
    for (const TensorToWrite* tensor : order) {
        const std::int64_t size = tensor->bytes().value;
        for (std::int64_t at = 0; at < size; at += kPiece) {
            const auto part = std::span(piece).first(static_cast<std::size_t>(std::min(kPiece, size - at)));
            tensor->fill(Bytes{at}, part);
            file.append(std::span<const std::byte>(part));
        }
    }
    FileRecord record = file.finish();
    sync_folder(path.has_parent_path() ? path.parent_path() : ".");
    return record;
}

}  // namespace sluice

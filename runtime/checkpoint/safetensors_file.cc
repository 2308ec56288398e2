#include "runtime/checkpoint/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "runtime/checkpoint/safetensors_header.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are read in the machine's byte order");

constexpr std::size_t kLengthBytes = 8, kLongestHeader = 100'000'000;  // the reference implementation's limit

// The bytes that a tensor of this type and shape has; absent where they do not fit in 63 bits.
std::optional<std::int64_t> bytes_of(const SafetensorsEntry& entry) {
    std::int64_t bytes = bytes_per_element(entry.type).value;
    for (const std::int64_t size : entry.shape)
        if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
    return bytes;
}

// `data` is what follows the header.
std::vector<TensorView> views(std::vector<SafetensorsEntry> entries, std::span<const std::byte> data,
                              std::string_view origin) {
    std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
        return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    const auto size = static_cast<std::int64_t>(data.size());
    std::int64_t end = 0;
    std::vector<TensorView> tensors;
    for (SafetensorsEntry& entry : entries) {
        const auto refuse = [&](std::string_view what) {
            throw InputError(fmt::format("{}: tensor {}: {}", origin, quote(entry.name), what));
        };
        if (entry.begin != end)
            refuse(fmt::format("begins at byte {}, expected {}, where the one before it ends", entry.begin, end));
        if (entry.end < entry.begin || entry.end > size)
            refuse(fmt::format("ends at byte {}, expected {} to {}{}", entry.end, entry.begin, size,
                               entry.end > size ? "; the file is truncated" : ""));
        const auto expected = bytes_of(entry);
        if (!expected) refuse(fmt::format("shape {} is too large", shape_text(entry.shape)));
        if (entry.end - entry.begin != *expected)
            refuse(fmt::format("{} bytes, expected {} for type {} and shape {}", entry.end - entry.begin, *expected,
                               name(entry.type), shape_text(entry.shape)));
        end = entry.end;
        tensors.push_back({std::move(entry.name), entry.type, std::move(entry.shape),
                           data.subspan(static_cast<std::size_t>(entry.begin), static_cast<std::size_t>(*expected))});
    }
    if (end != size) throw InputError(fmt::format("{}: tensors end at byte {}, expected {}", origin, end, size));
    return tensors;
}

}  // namespace

SafetensorsContent parse_safetensors(std::span<const std::byte> file, std::string_view origin) {
    const auto refuse = [&](std::string_view what) { throw InputError(fmt::format("{}: {}", origin, what)); };
    if (file.size() < kLengthBytes)
        refuse(fmt::format("{} bytes, expected at least the {} of a safetensors file", file.size(), kLengthBytes));
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), kLengthBytes);
    if (length > kLongestHeader)
        refuse(fmt::format("a header of {} bytes, expected at most {} in a safetensors file", length, kLongestHeader));
    if (length > file.size() - kLengthBytes)
        refuse(fmt::format("a header of {} bytes in a file of {}; the file is truncated", length, file.size()));
    const auto header_bytes = file.subspan(kLengthBytes, static_cast<std::size_t>(length));
    const std::string_view json(reinterpret_cast<const char*>(header_bytes.data()), header_bytes.size());
    if (!json.starts_with('{')) refuse("its header does not begin with {, expected a safetensors file");
    SafetensorsHeader header = parse_safetensors_header(json, origin);
    SafetensorsContent content{
        views(std::move(header.entries), file.subspan(kLengthBytes + header_bytes.size()), origin),
        std::move(header.metadata)};
    std::sort(content.tensors.begin(), content.tensors.end(),
              [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
    return content;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), content_(parse_safetensors(file_.bytes(), path.string())) {}

}  // namespace sluice

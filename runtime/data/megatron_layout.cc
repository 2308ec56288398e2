#include "runtime/data/megatron_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.h"

namespace sluice {
namespace {

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr std::size_t kVersionAt = 9, kDtypeAt = 17, kSequencesAt = 18, kDocumentsAt = 26, kHeader = 34;
constexpr std::uint64_t kVersion = 1;

template <class T>
T value_at(std::span<const std::byte> bytes, std::size_t offset) {
    T value{};
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

struct Refusal {
    std::string_view origin;
    [[noreturn]] void operator()(std::string_view what) const { throw InputError(fmt::format("{}: {}", origin, what)); }
};

TokenEncoding encoding_of(std::uint8_t dtype, const Refusal& refuse) {
    switch (dtype) {
        case 1:
            return TokenEncoding::kUint8;
        case 2:
            return TokenEncoding::kInt8;
        case 3:
            return TokenEncoding::kInt16;
        case 4:
            return TokenEncoding::kInt32;
        case 5:
            return TokenEncoding::kInt64;
        case 6:
        case 7:
            refuse(fmt::format("dtype {} ({}), expected one of integers", dtype, dtype == 6 ? "float64" : "float32"));
        case 8:
            return TokenEncoding::kUint16;
        default:
            refuse(fmt::format("dtype {}, expected 1 to 5 or 8", dtype));
    }
}

struct Counts {
    std::size_t sequences = 0, documents = 0;
};

// The numbers of entries, once the size of the index agrees with them: everything after this is inside the file.
Counts counts_of(std::span<const std::byte> index, const Refusal& refuse) {
    const auto sequences = value_at<std::uint64_t>(index, kSequencesAt);
    const auto documents = value_at<std::uint64_t>(index, kDocumentsAt);
    constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // keeps the sizes below far from overflow
    if (sequences > kMost || documents > kMost)
        refuse(fmt::format("{} sequences and {} document entries in the header, expected at most {} of each", sequences,
                           documents, kMost));
    const std::uint64_t expected = kHeader + sequences * 12 + documents * 8;
    if (index.size() == expected + sequences && sequences > 0)
        refuse("sequences have modes (multimodal data), which are not supported");
    if (index.size() != expected)
        refuse(fmt::format(
            "{} bytes, expected {} for the {} sequences and {} document entries that its header announces{}",
            index.size(), expected, sequences, documents, index.size() < expected ? "; the file is truncated" : ""));
    return {static_cast<std::size_t>(sequences), static_cast<std::size_t>(documents)};
}

// The number of tokens of all sequences.
std::int64_t check_sequences(std::span<const std::byte> index, Counts counts, Bytes width, const Refusal& refuse) {
    const std::size_t pointers_at = kHeader + counts.sequences * 4;
    std::int64_t tokens = 0;
    for (std::size_t s = 0; s < counts.sequences; ++s) {
        const auto length = value_at<std::int32_t>(index, kHeader + s * 4);
        const auto pointer = value_at<std::int64_t>(index, pointers_at + s * 8);
        if (length < 0) refuse(fmt::format("sequence {}: length {}, expected 0 or more", s, length));
        if (pointer != tokens * width.value)
            refuse(fmt::format("sequence {}: begins at byte {}, expected {}, where the one before it ends", s, pointer,
                               tokens * width.value));
        tokens += length;
        if (tokens > std::numeric_limits<std::int64_t>::max() / 16)
            refuse(fmt::format("sequence {}: more tokens than a file can hold", s));
    }
    return tokens;
}

void check_documents(std::span<const std::byte> index, Counts counts, const Refusal& refuse) {
    const std::size_t documents_at = kHeader + counts.sequences * 12;
    std::int64_t before = 0;
    for (std::size_t d = 0; d < counts.documents; ++d) {
        const auto sequence = value_at<std::int64_t>(index, documents_at + d * 8);
        if (sequence < before || static_cast<std::uint64_t>(sequence) > counts.sequences)
            refuse(fmt::format("document entry {}: sequence {}, expected {} to {}", d, sequence, before,
                               counts.sequences));
        before = sequence;
    }
}

}  // namespace

bool is_megatron_index(std::span<const std::byte> beginning) {
    return beginning.size() >= kMagic.size() && std::memcmp(beginning.data(), kMagic.data(), kMagic.size()) == 0;
}

TokenLayout megatron_layout(std::span<const std::byte> index, std::string_view index_origin, Bytes data_size,
                            std::string_view data_origin) {
    const Refusal refuse{index_origin};
    if (!is_megatron_index(index.first(std::min(index.size(), kMagic.size()))))
        refuse("does not begin with \"MMIDIDX\", expected the index of a Megatron token file");
    if (index.size() < kHeader)
        refuse(fmt::format("{} bytes, expected at least the {} of the header; the file is truncated", index.size(),
                           kHeader));
    const auto version = value_at<std::uint64_t>(index, kVersionAt);
    if (version != kVersion) refuse(fmt::format("version {} of a Megatron index, expected {}", version, kVersion));
    const TokenEncoding encoding = encoding_of(value_at<std::uint8_t>(index, kDtypeAt), refuse);
    const Counts counts = counts_of(index, refuse);
    const std::int64_t tokens = check_sequences(index, counts, bytes_per_token(encoding), refuse);
    check_documents(index, counts, refuse);
    const Bytes expected = tokens * bytes_per_token(encoding);
    if (data_size != expected)
        Refusal{data_origin}(fmt::format("{} bytes, expected {} for the {} tokens of its index{}", data_size.value,
                                         expected.value, tokens,
                                         data_size < expected ? "; the file is truncated" : ""));
    return {encoding, Bytes{0}, Tokens{tokens}};
}

}  // namespace sluice

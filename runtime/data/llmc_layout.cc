#include "runtime/data/llmc_layout.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace sluice {
namespace {

struct Kind {
    std::int32_t magic, version;
    TokenEncoding encoding;
    std::string_view name;
};
constexpr Kind kKinds[] = {{20240520, 1, TokenEncoding::kUint16, "GPT-2"},
                           {20240801, 7, TokenEncoding::kUint32, "Llama 3"}};

// Requires: the bytes hold it.
std::int32_t header_field(std::span<const std::byte> bytes, std::size_t index) {
    std::int32_t value = 0;
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
    return value;
}

const Kind* find_kind(std::span<const std::byte> beginning) {
    if (beginning.size() < sizeof(std::int32_t)) return nullptr;
    for (const Kind& kind : kKinds)
        if (header_field(beginning, 0) == kind.magic) return &kind;
    return nullptr;
}

}  // namespace

bool is_llmc(std::span<const std::byte> beginning) { return find_kind(beginning) != nullptr; }

TokenLayout llmc_layout(std::span<const std::byte> header, Bytes file_size, std::string_view origin) {
    const auto refuse = [&](std::string_view what) { throw InputError(fmt::format("{}: {}", origin, what)); };
    if (header.size() < static_cast<std::size_t>(kLlmcHeader.value))
        refuse(fmt::format("{} bytes, expected at least the {} of the header of an llm.c token file", file_size.value,
                           kLlmcHeader.value));
    const Kind* const kind = find_kind(header);
    if (kind == nullptr)
        refuse(fmt::format("magic {}, expected {} ({}) or {} ({}) of an llm.c token file", header_field(header, 0),
                           kKinds[0].magic, kKinds[0].name, kKinds[1].magic, kKinds[1].name));
    if (header_field(header, 1) != kind->version)
        refuse(fmt::format("version {} of an llm.c token file ({}), expected {}", header_field(header, 1), kind->name,
                           kind->version));
    const std::int64_t tokens = header_field(header, 2);
    if (tokens < 0) refuse(fmt::format("{} tokens in the header, expected 0 or more", tokens));
    const Bytes expected = kLlmcHeader + tokens * bytes_per_token(kind->encoding);
    if (file_size != expected)
        refuse(fmt::format("{} bytes, expected {} for the {} tokens that its header announces{}", file_size.value,
                           expected.value, tokens, file_size < expected ? "; the file is truncated" : ""));
    return {kind->encoding, kLlmcHeader, Tokens{tokens}};
}

}  // namespace sluice

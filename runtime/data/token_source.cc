#include "runtime/data/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/error.h"

namespace sluice {

static_assert(std::endian::native == std::endian::little, "token files are read in the machine's byte order");

Bytes bytes_per_token(TokenEncoding encoding) {
    switch (encoding) {
        case TokenEncoding::kUint8:
        case TokenEncoding::kInt8:
            return Bytes{1};
        case TokenEncoding::kUint16:
        case TokenEncoding::kInt16:
            return Bytes{2};
        case TokenEncoding::kUint32:
        case TokenEncoding::kInt32:
            return Bytes{4};
        case TokenEncoding::kInt64:
            return Bytes{8};
    }
    SLUICE_CHECK(false, "an encoding of tokens");
}

TokenSource::TokenSource(InputFile file, TokenLayout layout, std::int64_t vocabulary)
    : file_(std::move(file)), layout_(layout), vocabulary_(vocabulary) {
    SLUICE_CHECK(vocabulary >= 1 && vocabulary <= std::int64_t{1} << 31, "a vocabulary whose ids are int32");
    const Bytes width = bytes_per_token(layout.encoding);
    SLUICE_CHECK(layout.first.value >= 0 && layout.first <= file_.size() && layout.tokens.value >= 0 &&
                     layout.tokens.value <= (file_.size() - layout.first).value / width.value,
                 "the tokens lie inside the file");
}

template <class Stored>
void TokenSource::read_as(std::int64_t position, std::span<std::int32_t> ids) const {
    std::array<Stored, 4096> stored;
    while (!ids.empty()) {
        const std::size_t count = std::min(ids.size(), stored.size());
        file_.read_at(layout_.first.value + position * static_cast<std::int64_t>(sizeof(Stored)),
                      std::as_writable_bytes(std::span(stored).first(count)));
        for (std::size_t i = 0; i < count; ++i) {
            const auto id = static_cast<std::int64_t>(stored[i]);
            if (id < 0 || id >= vocabulary_)
                throw InputError(fmt::format("{}: token {}: id {}, expected 0 to {} (a vocabulary of {})", name(),
                                             position + static_cast<std::int64_t>(i), id, vocabulary_ - 1,
                                             vocabulary_));
            ids[i] = static_cast<std::int32_t>(id);
        }
        ids = ids.subspan(count);
        position += static_cast<std::int64_t>(count);
    }
}

void TokenSource::read(std::int64_t position, std::span<std::int32_t> ids) const {
    const auto count = static_cast<std::int64_t>(ids.size());
    SLUICE_CHECK(position >= 0 && count <= layout_.tokens.value && position <= layout_.tokens.value - count,
                 "tokens are read inside their source");
    switch (layout_.encoding) {
        case TokenEncoding::kUint8:
            return read_as<std::uint8_t>(position, ids);
        case TokenEncoding::kInt8:
            return read_as<std::int8_t>(position, ids);
        case TokenEncoding::kUint16:
            return read_as<std::uint16_t>(position, ids);
        case TokenEncoding::kInt16:
            return read_as<std::int16_t>(position, ids);
        case TokenEncoding::kUint32:
            return read_as<std::uint32_t>(position, ids);
        case TokenEncoding::kInt32:
            return read_as<std::int32_t>(position, ids);
        case TokenEncoding::kInt64:
            return read_as<std::int64_t>(position, ids);
    }
}

}  // namespace sluice

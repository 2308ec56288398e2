// Token ids of a training text, wherever they are stored. The file is never loaded as a whole.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/input_file.h"
#include "base/units.h"

namespace sluice {

// How one token is stored: a little-endian integer.
enum class TokenEncoding : std::uint8_t { kUint8, kInt8, kUint16, kInt16, kUint32, kInt32, kInt64 };

Bytes bytes_per_token(TokenEncoding encoding);

// Where the tokens lie in a file: `tokens` of them without gaps from byte `first` on.
struct TokenLayout {
    TokenEncoding encoding = TokenEncoding::kUint8;
    Bytes first{};
    Tokens tokens{};
    friend bool operator==(const TokenLayout&, const TokenLayout&) = default;
};

// Reads may come from several threads at once, and allocate nothing.
class TokenSource {
public:
    // `vocabulary` is the model's: ids are 0 .. vocabulary - 1. Requires: 1 <= vocabulary <= 2^31, the layout inside
    // the file. open_tokens.h makes sources out of files.
    TokenSource(InputFile file, TokenLayout layout, std::int64_t vocabulary);

    std::string name() const { return file_.path().string(); }
    std::int64_t vocabulary() const { return vocabulary_; }
    Tokens tokens() const { return layout_.tokens; }

    // The ids from token `position` on. Requires: they lie inside the source. Throws InputError naming file, position,
    // id and vocabulary for an id outside it, and where the file has been cut since it was opened.
    void read(std::int64_t position, std::span<std::int32_t> ids) const;

private:
    template <class Stored>
    void read_as(std::int64_t position, std::span<std::int32_t> ids) const;

    InputFile file_;
    TokenLayout layout_;
    std::int64_t vocabulary_;
};

}  // namespace sluice

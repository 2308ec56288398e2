// Reads one line of a text file from left to right: words, whole numbers, byte sizes, ids and punctuation, with blanks
// allowed between any two of them. Every failure is an InputError that names the place and what was expected there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/units.h"

namespace sluice {

// Never allocates except to build a message. The views must outlive the cursor.
class LineCursor {
public:
    // `number`: of the line, from 1, for messages. Everything from a '#' on is a comment and not read.
    LineCursor(std::string_view line, std::string_view origin, std::size_t number);

    // The next character that is not a blank, or '\0' at the end of the line.
    char peek();
    bool at_end() { return peek() == '\0'; }

    // Consumes the next character if it is `c`.
    bool accept(char c);
    void expect(char c);
    void expect_end(std::string_view expected = "end of line");

    // Consumes the next word if it is `expected`.
    bool accept_word(std::string_view expected);
    void expect_word(std::string_view expected);

    // Consumes one of `names` and returns its index. `what` names the thing in messages: "buffer kind".
    std::size_t choice(std::string_view what, std::span<const std::string_view> names);

    // Whole numbers; messages name the range when it is exceeded.
    std::int64_t int64(std::string_view what);
    std::int32_t int32(std::string_view what);
    std::uint32_t uint32(std::string_view what);

    // "64 MiB": a whole number and B, KiB, MiB, GiB or TiB, exactly. A zero needs no unit.
    Bytes bytes(std::string_view what);

    // `prefix` and a number: "r3".
    template <class Id>
    Id id(char prefix, std::string_view what) {
        return static_cast<Id>(prefixed(prefix, what));
    }

    // Remembers where the next thing begins, so that fail() can point there after it was read.
    std::size_t mark();
    [[noreturn]] void fail(std::size_t mark, std::string_view what, std::string_view expected,
                           std::string_view suggestion = {});

private:
    std::string_view word();
    std::string_view token_at(std::size_t begin) const;
    template <class Int>
    Int integer(std::string_view what);
    std::uint32_t prefixed(char prefix, std::string_view what);

    std::string_view line_;
    std::string_view origin_;
    std::size_t number_;
    std::size_t next_ = 0;
};

}  // namespace sluice

// Output of other programs, line by line and word by word, with places. Private to scenarios/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct TextWord {
    std::string_view text;
    int column = 1;  // counted in bytes
};

// One line, without what ends it. `text` and `origin` must outlive it.
struct TextLine {
    std::string_view origin;
    int number = 0;
    std::string_view text;
    std::vector<TextWord> words;  // between spaces and tabs

    // Word `at`, or "" behind the end.
    std::string_view word(std::size_t at) const { return at < words.size() ? words[at].text : std::string_view(); }
    [[noreturn]] void fail(std::size_t word, std::string_view message) const;  // at the word, or the end of the line
};

// Throws InputError for a NUL byte and for a line of more than 8192 bytes. What mpirun puts before the lines of its
// processes ("[1,0]<stdout>:") is not part of them.
std::vector<TextLine> text_lines(std::string_view text, std::string_view origin);

// A number as printf writes it, finite. Throws InputError: "`what`: got ..., expected a number".
double read_number(const TextLine& line, std::size_t word, std::string_view what);
// 0 ... most.
std::int64_t read_whole(const TextLine& line, std::size_t word, std::string_view what, std::int64_t most);

// Throws InputError for what is not printable ASCII, or longer than 64: then it is no name of a product or version.
std::string plain_name(std::string_view text, std::string_view origin, int line, int column, std::string_view what);

}  // namespace sluice

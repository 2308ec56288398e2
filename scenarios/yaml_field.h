// Strict reading of a YAML tree: every function returns what was asked for or throws InputError with the place, the
// field's path, what was got and what was expected. Private to scenarios/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/units.h"
#include "scenarios/quantity.h"
#include "scenarios/yaml_tree.h"

namespace sluice {

// A node and what messages call it. Cheap to copy; the node and `origin` must outlive it.
struct YamlField {
    const YamlNode* node = nullptr;
    std::string path;         // "policy.sp.degree", "" for the root
    std::string_view origin;  // the file, for messages
    YamlPlace place;          // of the value, or of the key where the value is missing
};

// A range that includes both ends. Its text is what messages show.
template <class T>
struct Limits {
    T least, most;
    std::string_view text;  // "1 ... 1024"
};

[[noreturn]] void fail(const YamlField& field, std::string_view message);

// ---- Mappings
// --------------------------------------------------------------------------------------------------------

// `field` is a mapping and has no keys but `known`.
void expect_keys(const YamlField& field, std::span<const std::string_view> known);
std::optional<YamlField> find(const YamlField& mapping, std::string_view key);
YamlField get(const YamlField& mapping, std::string_view key);  // throws when the key is missing

// ---- Sequences
// -------------------------------------------------------------------------------------------------------

// The items of a sequence that is not empty, "path[0]" first.
std::vector<YamlField> items(const YamlField& field);

// ---- Scalars
// ---------------------------------------------------------------------------------------------------------

std::string_view read_text(const YamlField& field);  // any scalar but an empty one
std::string_view read_line(const YamlField& field);  // the same without control characters: fit to be printed
// A name that can be a file's stem: letters, digits, "-", "_", "."; starts with a letter or digit; at most 64.
std::string read_name(const YamlField& field);
bool read_bool(const YamlField& field);
std::int64_t read_count(const YamlField& field, std::int64_t most);  // 1 ... most
double read_ratio(const YamlField& field);                           // 0 ... 1
double read_number(const YamlField& field, Limits<double> limits);  // without a unit

Bytes read_bytes(const YamlField& field, Limits<Bytes> limits);
Tokens read_tokens(const YamlField& field, Limits<Tokens> limits);
std::int64_t read_sequences(const YamlField& field, Limits<std::int64_t> limits);
Seconds read_seconds(const YamlField& field);                  // 0 ... 10^6 s
Seconds read_duration(const YamlField& field, Limits<Seconds> limits);
BytesPerSecond read_bytes_per_second(const YamlField& field);  // 1 ... 10^18 B/s
FlopsPerSecond read_flops_per_second(const YamlField& field);  // 1 ... 10^21 FLOP/s
double read_fractional_bytes(const YamlField& field, Limits<double> limits);

// The same bounds for numbers that come from table cells.
void expect_rate(const YamlField& field, BytesPerSecond rate);
void expect_rate(const YamlField& field, FlopsPerSecond rate);

inline constexpr Limits<Bytes> kMemoryLimits{Bytes{1}, Bytes{std::int64_t{1} << 50}, "1 B ... 1 PiB"};
inline constexpr Limits<Bytes> kReservedLimits{Bytes{0}, Bytes{std::int64_t{1} << 50}, "0 B ... 1 PiB"};

// ---- Choices
// ---------------------------------------------------------------------------------------------------------

template <class T>
struct Choice {
    std::string_view name;
    T value;
};

// Throws the message for a name that is none of `known`. `planned` are refused by name: not supported yet. `also` is
// what else the field may hold, for the message: "{ratio: 0 ... 1}".
[[noreturn]] void refuse_choice(const YamlField& field, std::span<const std::string_view> known,
                                std::span<const std::string_view> planned, std::string_view also);

template <class T, std::size_t N>
T read_choice(const YamlField& field, const Choice<T> (&choices)[N], std::span<const std::string_view> planned = {},
              std::string_view also = {}) {
    const std::string_view text = read_text(field);
    std::array<std::string_view, N> names;
    for (std::size_t i = 0; i < N; ++i) {
        if (choices[i].name == text) return choices[i].value;
        names[i] = choices[i].name;
    }
    refuse_choice(field, names, planned, also);
}

}  // namespace sluice

#include "scenarios/yaml_field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest_name.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

std::string_view kind_name(YamlKind kind) {
    switch (kind) {
        case YamlKind::kNull:
            return "nothing";
        case YamlKind::kScalar:
            return "a single value";
        case YamlKind::kSequence:
            return "a list";
        case YamlKind::kMapping:
            return "a mapping";
    }
    return "";
}

void expect_kind(const YamlField& field, YamlKind kind) {
    if (field.node->kind != kind)
        fail(field, fmt::format("got {}, expected {}", kind_name(field.node->kind), kind_name(kind)));
}

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
    const std::string nearest = nearest_name(name, known);
    return nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
}

YamlField child(const YamlField& mapping, const YamlEntry& entry) {
    const bool missing = entry.value.kind == YamlKind::kNull;
    return {&entry.value, mapping.path.empty() ? entry.key : fmt::format("{}.{}", mapping.path, entry.key),
            mapping.origin, missing ? entry.place : entry.value.place};
}

template <class T>
T checked(const YamlField& field, Parsed<T> parsed) {
    if (!parsed.error.empty()) fail(field, parsed.error);
    return parsed.value;
}

template <class T>
T within(const YamlField& field, T value, const Limits<T>& limits) {
    if (value < limits.least || limits.most < value)
        fail(field, fmt::format("got {}, expected {}", quote(read_text(field)), limits.text));
    return value;
}

constexpr Limits<Seconds> kTimeLimits{Seconds{0}, Seconds{1e6}, "0 s ... 1e6 s"};
constexpr Limits<BytesPerSecond> kByteRateLimits{BytesPerSecond{1}, BytesPerSecond{1e18}, "1 B/s ... 1e18 B/s"};
constexpr Limits<FlopsPerSecond> kFlopRateLimits{FlopsPerSecond{1}, FlopsPerSecond{1e21}, "1 FLOP/s ... 1e21 FLOP/s"};

bool is_name(std::string_view text) {
    const auto alphanumeric = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    return !text.empty() && text.size() <= 64 && alphanumeric(text.front()) &&
           std::all_of(text.begin(), text.end(),
                       [&](char c) { return alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

void fail(const YamlField& field, std::string_view message) {
    throw InputError(fmt::format("{}:{}:{}: {}{}{}", field.origin, field.place.line, field.place.column, field.path,
                                 field.path.empty() ? "" : ": ", message));
}

void expect_keys(const YamlField& field, std::span<const std::string_view> known) {
    expect_kind(field, YamlKind::kMapping);
    for (const YamlEntry& entry : field.node->entries) {
        if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
        YamlField at = field;
        at.place = entry.place;
        fail(at, fmt::format("unknown key {}, expected {}{}", quote(entry.key), fmt::join(known, ", "),
                             suggestion(entry.key, known)));
    }
}

std::optional<YamlField> find(const YamlField& mapping, std::string_view key) {
    for (const YamlEntry& entry : mapping.node->entries)
        if (entry.key == key) return child(mapping, entry);
    return std::nullopt;
}

YamlField get(const YamlField& mapping, std::string_view key) {
    expect_kind(mapping, YamlKind::kMapping);
    if (std::optional<YamlField> field = find(mapping, key)) return *field;
    fail(mapping, fmt::format("missing key \"{}\"", key));
}

std::vector<YamlField> items(const YamlField& field) {
    expect_kind(field, YamlKind::kSequence);
    if (field.node->items.empty()) fail(field, "got an empty list, expected at least one item");
    std::vector<YamlField> fields;
    fields.reserve(field.node->items.size());
    for (const YamlNode& item : field.node->items)
        fields.push_back({&item, fmt::format("{}[{}]", field.path, fields.size()), field.origin, item.place});
    return fields;
}

std::string_view read_text(const YamlField& field) {
    expect_kind(field, YamlKind::kScalar);
    if (field.node->text.empty()) fail(field, "got \"\", expected a text");
    return field.node->text;
}

std::string_view read_line(const YamlField& field) {
    const std::string_view text = read_text(field);
    if (!is_one_line(text))
        fail(field, fmt::format("got {}, expected one line without control characters", quote(text)));
    return text;
}

std::string read_name(const YamlField& field) {
    const std::string_view text = read_text(field);
    if (!is_name(text))
        fail(field, fmt::format("got {}, expected a name: letters, digits, \"-\", \"_\", \".\", starting with a letter "
                                "or digit, at most 64",
                                quote(text)));
    return std::string(text);
}

bool read_bool(const YamlField& field) {
    static constexpr Choice<bool> kChoices[] = {{"true", true}, {"false", false}};
    return read_choice(field, kChoices);
}

std::int64_t read_count(const YamlField& field, std::int64_t most) {
    const std::string_view text = read_text(field);
    if (field.node->quoted) fail(field, fmt::format("got the text {}, expected a bare whole number", quote(text)));
    const std::int64_t count = checked(field, parse_count(text));
    if (count < 1 || count > most) fail(field, fmt::format("got {}, expected 1 ... {}", count, most));
    return count;
}

double read_ratio(const YamlField& field) {
    const std::string_view text = read_text(field);
    const double ratio = checked(field, parse_number(text));
    if (ratio > 1) fail(field, fmt::format("got {}, expected 0 ... 1", quote(text)));
    return ratio;
}

double read_number(const YamlField& field, Limits<double> limits) {
    const std::string_view text = read_text(field);
    if (field.node->quoted) fail(field, fmt::format("got the text {}, expected a bare number", quote(text)));
    return within(field, checked(field, parse_number(text)), limits);
}

Bytes read_bytes(const YamlField& field, Limits<Bytes> limits) {
    return within(field, checked(field, parse_bytes(read_text(field))), limits);
}

Tokens read_tokens(const YamlField& field, Limits<Tokens> limits) {
    return within(field, checked(field, parse_tokens(read_text(field))), limits);
}

std::int64_t read_sequences(const YamlField& field, Limits<std::int64_t> limits) {
    return within(field, checked(field, parse_sequences(read_text(field))), limits);
}

Seconds read_seconds(const YamlField& field) {
    return within(field, checked(field, parse_seconds(read_text(field))), kTimeLimits);
}

Seconds read_duration(const YamlField& field, Limits<Seconds> limits) {
    return within(field, checked(field, parse_duration(read_text(field))), limits);
}

BytesPerSecond read_bytes_per_second(const YamlField& field) {
    return within(field, checked(field, parse_bytes_per_second(read_text(field))), kByteRateLimits);
}

FlopsPerSecond read_flops_per_second(const YamlField& field) {
    return within(field, checked(field, parse_flops_per_second(read_text(field))), kFlopRateLimits);
}

double read_fractional_bytes(const YamlField& field, Limits<double> limits) {
    return within(field, checked(field, parse_fractional_bytes(read_text(field))), limits);
}

void expect_rate(const YamlField& field, BytesPerSecond rate) { within(field, rate, kByteRateLimits); }

void expect_rate(const YamlField& field, FlopsPerSecond rate) { within(field, rate, kFlopRateLimits); }

void refuse_choice(const YamlField& field, std::span<const std::string_view> known,
                   std::span<const std::string_view> planned, std::string_view also) {
    const std::string_view text = read_text(field);
    const std::string expected =
        fmt::format("expected {}{}{}", fmt::join(known, " or "), also.empty() ? "" : " or ", also);
    if (std::find(planned.begin(), planned.end(), text) != planned.end())
        fail(field, fmt::format("{} is not supported yet, {}", quote(text), expected));
    fail(field, fmt::format("got {}, {}{}", quote(text), expected, suggestion(text, known)));
}

}  // namespace sluice

#include "scenarios/sourced_block.h"

#include <fmt/format.h>

#include <vector>

#include "base/nearest_name.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

void use_id(const YamlField& field, SourceList& sources) {
    const std::string_view id = read_text(field);
    if (const auto found = sources.by_id.find(id); found != sources.by_id.end()) {
        found->second.used = true;
        return;
    }
    std::vector<std::string_view> known;
    for (const auto& [listed, source] : sources.by_id) known.push_back(listed);
    const std::string nearest = nearest_name(id, known);
    fail(field, fmt::format("got {}, expected the id of one of this file's sources{}", quote(id),
                            nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest)));
}

void check_note(const YamlField& mapping) {
    if (const auto note = find(mapping, "note")) read_text(*note);
}

YamlField sourced(const SourcedBlock& block, YamlField field) {
    if (field.node->kind != YamlKind::kMapping) {
        if (!block.has_source)
            fail(field, "has no source, expected a key \"source\" beside it or {value: NUMBER, source: ID}");
        return field;
    }
    static constexpr std::string_view kKeys[] = {"value", "source", "note"};
    expect_keys(field, kKeys);
    check_note(field);
    if (const auto own = find(field, "source"))
        use_source(*own, *block.sources);
    else if (!block.has_source)
        fail(field, "missing key \"source\"");
    YamlField value = get(field, "value");
    value.path = field.path;
    return value;
}

}  // namespace

SourceList read_sources(const YamlField& root) {
    static constexpr std::string_view kKeys[] = {"id", "title", "url", "note"};
    SourceList sources;
    for (const YamlField& item : items(get(root, "sources"))) {
        expect_keys(item, kKeys);
        const YamlField id = get(item, "id");
        read_text(get(item, "title"));
        if (const auto url = find(item, "url")) read_text(*url);
        check_note(item);
        if (!sources.by_id.emplace(read_name(id), SourceList::Source{id, false}).second)
            fail(id, fmt::format("source {} is listed twice", quote(read_text(id))));
    }
    return sources;
}

void use_source(const YamlField& field, SourceList& sources) {
    if (field.node->kind != YamlKind::kSequence) return use_id(field, sources);
    for (const YamlField& item : items(field)) use_id(item, sources);
}

void expect_all_used(const SourceList& sources) {
    for (const auto& [id, source] : sources.by_id)
        if (!source.used) fail(source.field, fmt::format("no number names the source {}", quote(id)));
}

SourcedBlock open_block(const YamlField& field, SourceList& sources, std::span<const std::string_view> keys) {
    std::vector<std::string_view> known(keys.begin(), keys.end());
    known.insert(known.end(), {"source", "note"});
    expect_keys(field, known);
    check_note(field);
    const std::optional<YamlField> source = find(field, "source");
    if (source) use_source(*source, sources);
    return {field, &sources, source.has_value()};
}

std::optional<YamlField> find_number(const SourcedBlock& block, std::string_view key) {
    const std::optional<YamlField> field = find(block.field, key);
    return field ? std::optional(sourced(block, *field)) : std::nullopt;
}

YamlField get_number(const SourcedBlock& block, std::string_view key) { return sourced(block, get(block.field, key)); }

}  // namespace sluice

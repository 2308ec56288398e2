// Blocks of numbers that say where they come from: clusters and calibrations. docs/scenarios.md, "Sources".
// Private to scenarios/.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "scenarios/yaml_field.h"

namespace sluice {

// The `sources` of one file and whether any number used them. Ordered, so that messages do not depend on hashing.
struct SourceList {
    struct Source {
        YamlField field;
        bool used = false;
    };
    std::map<std::string, Source, std::less<>> by_id;
};

// Reads the key `sources` of the file's root.
SourceList read_sources(const YamlField& root);
// Marks the ids of a `source` field (one id or a list) as used; throws for one that is not listed.
void use_source(const YamlField& field, SourceList& sources);
// Throws for a source that nothing used.
void expect_all_used(const SourceList& sources);

// A mapping of numbers. `source` and `note` are known keys besides those given.
struct SourcedBlock {
    YamlField field;
    SourceList* sources;
    bool has_source = false;  // else each number needs its own
};
SourcedBlock open_block(const YamlField& field, SourceList& sources, std::span<const std::string_view> keys);

// The value of a number, which has a source: the block's or its own.
std::optional<YamlField> find_number(const SourcedBlock& block, std::string_view key);
YamlField get_number(const SourcedBlock& block, std::string_view key);

}  // namespace sluice

// The subset of YAML that scenario files use, as a plain tree with places. Private to scenarios/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct YamlPlace {
    int line = 1, column = 1;
};

enum class YamlKind : unsigned char { kNull, kScalar, kSequence, kMapping };

struct YamlEntry;

struct YamlNode {
    YamlKind kind = YamlKind::kNull;
    bool quoted = false;  // a scalar in quotes or a block scalar
    YamlPlace place;
    std::string text;                // kScalar
    std::vector<YamlNode> items;     // kSequence
    std::vector<YamlEntry> entries;  // kMapping: in file order, keys distinct
};

struct YamlEntry {
    std::string key;
    YamlPlace place;  // of the key
    YamlNode value;
};

// Parses one document. Throws InputError "origin:line:col: ..." for what is not YAML, not UTF-8 text, longer than 1 MiB
// or deeper than 16 levels, and for what the subset leaves out: several documents, an empty document, duplicate keys,
// keys that are not scalars, anchors, aliases, merge keys and tags.
YamlNode parse_yaml(std::string_view text, std::string_view origin);

}  // namespace sluice

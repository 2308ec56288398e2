// Where the numbers of a cluster or calibration come from, for those who write one. docs/scenarios.md, "Sources".
#pragma once

#include <map>
#include <string>
#include <vector>

namespace sluice {

struct FileOrigin {
    struct Source {
        std::string id, title, note{};
    };
    struct Block {
        std::string source, note{};  // source: an id, or several as "[id, id]"; empty: the first source
    };
    std::string comment;          // lines at the head of the file, without "# "
    std::vector<Source> sources;  // at least one; the reader refuses one that no block uses
    std::map<std::string, Block, std::less<>>
        blocks;  // by the file's keys; a block that is not here has the first source

    const Block& of(std::string_view key) const {
        static const Block kNone;
        const auto at = blocks.find(key);
        return at == blocks.end() ? kNone : at->second;
    }
};

}  // namespace sluice

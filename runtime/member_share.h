// How the members of a group share out elements: ceil(count / members) each, one behind the other. The last members may
// have fewer, or none.
#pragma once

#include <algorithm>
#include <cstddef>

namespace sluice {

struct MemberShare {
    std::size_t first = 0, count = 0;
};

constexpr MemberShare member_share(std::size_t count, std::size_t member, std::size_t members) {
    const std::size_t most = (count + members - 1) / members, first = std::min(count, member * most);
    return {first, std::min(most, count - first)};
}

}  // namespace sluice

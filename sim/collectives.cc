#include "sim/collectives.h"

#include <cmath>
#include <cstdint>

#include "models/collective_cost.h"

namespace sluice {
namespace {

Bytes whole(double bytes) { return Bytes{std::llround(bytes)}; }

struct Expansion {
    const std::vector<Rank>& members;
    const Rails& rails;
    std::vector<MemberFlow>& flows;

    void hop(std::size_t from, std::size_t to, Bytes bytes) const;
    void ring(Bytes each) const;
    void chain(std::size_t root, bool to_root, Bytes each) const;
    void everyone_to_everyone(Bytes each) const;
};

// Of a ring or a chain.
void Expansion::hop(std::size_t from, std::size_t to, Bytes bytes) const {
    if (rails.same_node(from, to)) {
        flows.push_back({members[from], members[to], bytes});
        return;
    }
    const auto count = static_cast<std::int64_t>(rails.count);
    for (std::size_t rail = 0; rail < rails.count; ++rail) {
        const bool one_more = static_cast<std::int64_t>(rail) < bytes.value % count;
        flows.push_back(
            {rails.gate(from, rail).out, rails.gate(to, rail).in, Bytes{bytes.value / count + (one_more ? 1 : 0)}});
    }
}

void Expansion::ring(Bytes each) const {
    for (std::size_t i = 0; i < members.size(); ++i) hop(i, (i + 1) % members.size(), each);
}

void Expansion::chain(std::size_t root, bool to_root, Bytes each) const {
    for (std::size_t step = 0; step + 1 < members.size(); ++step) {
        const std::size_t near = (root + step) % members.size(), far = (near + 1) % members.size();
        to_root ? hop(far, near, each) : hop(near, far, each);
    }
}

void Expansion::everyone_to_everyone(Bytes each) const {
    for (std::size_t distance = 1; distance < members.size(); ++distance) {
        for (std::size_t i = 0; i < members.size(); ++i) {
            const std::size_t to = (i + distance) % members.size();
            flows.push_back({members[i], members[to], each, rails.same_node(i, to) ? 1 : rails.sharers[i]});
        }
    }
}

}  // namespace

void expand(const Collective& collective, const std::vector<Rank>& members, const Rails& rails,
            std::vector<MemberFlow>& flows) {
    const std::size_t n = members.size();
    if (n <= 1) return;
    const double all_calls = static_cast<double>(collective.bytes.value) * collective.calls;
    const Bytes each = whole(ring_fraction(collective.kind, n) * all_calls);
    const Expansion expansion{members, rails, flows};
    switch (collective.kind) {
        case CollectiveKind::kAllGather:
        case CollectiveKind::kReduceScatter:
        case CollectiveKind::kAllReduce:
            expansion.ring(each);
            break;
        case CollectiveKind::kBroadcast:
            expansion.chain(collective.root, false, each);
            break;
        case CollectiveKind::kReduce:
            expansion.chain(collective.root, true, each);
            break;
        case CollectiveKind::kAllToAll:
            expansion.everyone_to_everyone(whole(all_calls / static_cast<double>(n)));
            break;
    }
}

}  // namespace sluice

#include "sim/copy_parts.h"

#include <cmath>

namespace sluice {
namespace {

std::vector<CopyPart> parts_of(Rank rank, const std::vector<Bytes>& by_numa, const Topology& topology) {
    Bytes all{};
    for (const Bytes bytes : by_numa) all += bytes;
    if (all == Bytes{}) return {{topology.memory(rank), 1}};
    std::vector<CopyPart> parts;
    Bytes until{};
    for (std::size_t m = 0; m < by_numa.size(); ++m) {
        if (by_numa[m] == Bytes{}) continue;
        until += by_numa[m];
        parts.push_back({topology.memory(rank, m), until / all});
    }
    return parts;
}

}  // namespace

std::vector<Bytes> divide(Bytes bytes, const std::vector<CopyPart>& parts) {
    std::vector<Bytes> result;
    Bytes done{};
    for (const CopyPart& part : parts) {
        const bool last = &part == &parts.back();
        const Bytes until = last ? bytes : Bytes{std::llround(part.until * static_cast<double>(bytes.value))};
        result.push_back(until - done);
        done = until;
    }
    return result;
}

std::vector<std::vector<CopyPart>> copy_parts(const PinnedMemory& pinned, const Topology& topology) {
    std::vector<std::vector<CopyPart>> result;
    for (std::size_t r = 0; r < pinned.by_rank.size(); ++r)
        result.push_back(parts_of(id_at<Rank>(r), pinned.by_rank[r], topology));
    return result;
}

}  // namespace sluice

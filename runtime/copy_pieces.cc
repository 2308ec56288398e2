#include "runtime/copy_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "schedule/describe.h"

namespace sluice {
namespace {

using Spans = std::vector<std::span<std::byte>>;

Spans spans_of(const Op& op, const RankArenas& arenas, bool reads) {
    Spans spans;
    for (const Access& access : op.accesses)
        if ((access.mode == AccessMode::kRead) == reads) spans.push_back(arenas.span_of(access));
    return spans;
}

std::size_t total(const Spans& spans) {
    std::size_t bytes = 0;
    for (const std::span<std::byte> span : spans) bytes += span.size();
    return bytes;
}

}  // namespace

std::vector<CopyPiece> copy_pieces(const Op& op, const RankArenas& arenas) {
    const auto bytes = static_cast<std::size_t>(std::get<Copy>(op.work).bytes.value);
    Spans from = spans_of(op, arenas, true), to = spans_of(op, arenas, false);
    if (total(from) != bytes || total(to) != bytes)
        throw InputError(fmt::format("{} copies {} bytes, but reads {} and writes {}, expected the same", describe(op),
                                     bytes, total(from), total(to)));
    std::vector<CopyPiece> pieces;
    for (std::size_t f = 0, t = 0; f < from.size() && t < to.size();) {
        const std::size_t length = std::min(from[f].size(), to[t].size());
        if (length > 0) pieces.push_back({from[f].data(), to[t].data(), length});
        from[f] = from[f].subspan(length);
        to[t] = to[t].subspan(length);
        if (from[f].empty()) ++f;
        if (t < to.size() && to[t].empty()) ++t;
    }
    return pieces;
}

}  // namespace sluice

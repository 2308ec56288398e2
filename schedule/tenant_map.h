// Who occupies which bytes of an arena, latest tenant first to be asked. Ranges are half-open.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "base/ids.h"
#include "base/units.h"

namespace sluice {

class TenantMap {
public:
    // Calls visit(buffer) for every tenant of some byte of [begin, end), in order of address; a tenant of several
    // pieces may come several times.
    template <class Visit>
    void for_each(Bytes begin, Bytes end, const Visit& visit) const {
        auto piece = pieces_.upper_bound(begin);
        if (piece != pieces_.begin() && std::prev(piece)->second.end > begin) --piece;
        for (; piece != pieces_.end() && piece->first < end; ++piece) visit(piece->second.tenant);
    }

    // `tenant` takes [begin, end) over from whoever was there. Amortised logarithmic. Requires: begin < end.
    void take_over(Bytes begin, Bytes end, BufferId tenant) {
        auto piece = pieces_.lower_bound(begin);
        if (piece != pieces_.begin()) {
            const auto left = std::prev(piece);
            if (left->second.end > end) pieces_.emplace_hint(piece, end, Piece{left->second.end, left->second.tenant});
            if (left->second.end > begin) left->second.end = begin;
        }
        piece = pieces_.lower_bound(begin);
        while (piece != pieces_.end() && piece->first < end) {
            if (piece->second.end > end) pieces_.emplace(end, Piece{piece->second.end, piece->second.tenant});
            piece = pieces_.erase(piece);
        }
        pieces_.emplace_hint(piece, begin, Piece{end, tenant});
    }

private:
    struct Piece {
        Bytes end;
        BufferId tenant;
    };
    std::map<Bytes, Piece> pieces_;  // by begin, disjoint
};

}  // namespace sluice

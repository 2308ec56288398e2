#include "runtime/profile/fill_short_rows.h"

#include <algorithm>

#include "base/error.h"

namespace sluice {

void fill_short_rows(std::span<AttentionPoint> row) {
    const auto first = std::find_if(row.begin(), row.end(), [](const auto& p) { return p.forward.value > 0; });
    SLUICE_CHECK(first != row.end(), "a row of a table has a rate");
    for (auto point = row.begin(); point != first; ++point)
        point->forward = first->forward, point->backward = first->backward;
}

}  // namespace sluice

#include "runtime/local_ranks.h"

namespace sluice {

std::vector<Rank> all_ranks(const Schedule& schedule) {
    std::vector<Rank> ranks;
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r) ranks.push_back(id_at<Rank>(r));
    return ranks;
}

}  // namespace sluice

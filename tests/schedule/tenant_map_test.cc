#include "schedule/tenant_map.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace sluice {
namespace {

TEST(TenantMap, AgreesWithATenantPerByte) {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        std::mt19937 random(seed);
        TenantMap map;
        std::vector<BufferId> bytes(40, kNoBuffer);
        for (std::uint32_t step = 0; step < 40; ++step) {
            const std::size_t begin = random() % 39, end = begin + 1 + random() % (40 - begin - 1 + 1);
            const std::set<BufferId> expected = [&] {
                std::set<BufferId> tenants(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                                           bytes.begin() + static_cast<std::ptrdiff_t>(end));
                tenants.erase(kNoBuffer);
                return tenants;
            }();
            std::set<BufferId> got;
            const Bytes from{static_cast<std::int64_t>(begin)}, to{static_cast<std::int64_t>(end)};
            map.for_each(from, to, [&](BufferId tenant) { got.insert(tenant); });
            ASSERT_EQ(got, expected) << "seed " << seed << " step " << step;
            map.take_over(from, to, id_at<BufferId>(step));
            std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                      bytes.begin() + static_cast<std::ptrdiff_t>(end), id_at<BufferId>(step));
        }
    }
}

}  // namespace
}  // namespace sluice

// Memory that processes share, found by where it is and known by its token.
#include "runtime/rendezvous/shared_page.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace sluice {
namespace {

constexpr std::size_t kBytes = 1000;

TEST(SharedPage, IsTheSameForWhoeverFindsIt) {
    const SharedPage page = SharedPage::make(kBytes);
    ASSERT_GE(page.bytes().size(), kBytes);
    EXPECT_EQ(std::count(page.bytes().begin(), page.bytes().end(), std::byte{0}),
              static_cast<std::ptrdiff_t>(page.bytes().size()));
    const std::optional<SharedPage> found = SharedPage::open(page.place(), kBytes);
    ASSERT_TRUE(found);
    found->bytes()[kBytes - 1] = std::byte{7};
    EXPECT_EQ(page.bytes()[kBytes - 1], std::byte{7});
    EXPECT_EQ(found->pages().size(), page.pages().size());
}

TEST(SharedPage, IsFoundByAnotherProcess) {
    const SharedPage page = SharedPage::make(kBytes);
    const SharedPagePlace place = page.place();
    const pid_t child = fork();
    if (child == 0) {
        const std::optional<SharedPage> found = SharedPage::open(place, kBytes);
        if (found) found->bytes()[0] = std::byte{9};
        _exit(found ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(page.bytes()[0], std::byte{9});
}

// What has that number on another host: nothing, another page, one of another size, no page at all.
TEST(SharedPage, IsNotMistakenForAnother) {
    const SharedPage page = SharedPage::make(kBytes), other = SharedPage::make(kBytes);
    SharedPagePlace place = page.place();
    place.token[1] ^= 1;
    EXPECT_FALSE(SharedPage::open(place, kBytes));
    place = page.place();
    place.descriptor = other.place().descriptor;
    EXPECT_FALSE(SharedPage::open(place, kBytes));
    EXPECT_FALSE(SharedPage::open(page.place(), 100 * kBytes));
    place.process = 0;
    EXPECT_FALSE(SharedPage::open(place, kBytes));
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    place = page.place();
    place.descriptor = static_cast<std::uint32_t>(ends[0]);
    EXPECT_FALSE(SharedPage::open(place, kBytes));
    close(ends[0]), close(ends[1]);
}

}  // namespace
}  // namespace sluice

#include "scenarios/quote.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Quote, KeepsMessagesOnOneShortLine) {
    EXPECT_EQ(quote("4 M tokens"), "\"4 M tokens\"");
    EXPECT_EQ(quote(""), "\"\"");
    EXPECT_EQ(quote("a\nb\x1b[31m\x7f"), "\"a b [31m \"");
    EXPECT_EQ(quote(std::string(60, 'x')), "\"" + std::string(60, 'x') + "\"");
    EXPECT_EQ(quote(std::string(61, 'x')), "\"" + std::string(60, 'x') + "...\"");
    // Bytes 59 and 60 are one character: it goes whole.
    EXPECT_EQ(quote(std::string(59, 'x') + "\xc3\xa9z"), "\"" + std::string(59, 'x') + "...\"");
}

}  // namespace
}  // namespace sluice

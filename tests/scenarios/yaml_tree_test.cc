#include "scenarios/yaml_tree.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

std::string error_of(std::string_view text) {
    try {
        parse_yaml(text, "t.yaml");
    } catch (const InputError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(YamlTree, KeepsOrderKindsAndPlaces) {
    const YamlNode root = parse_yaml("# c\nb: [1, \"2\"]\na:\n  x: ~\n", "t.yaml");
    ASSERT_EQ(root.kind, YamlKind::kMapping);
    ASSERT_EQ(root.entries.size(), 2U);
    EXPECT_EQ(root.entries[0].key, "b");
    EXPECT_EQ(root.entries[0].place.line, 2);
    EXPECT_EQ(root.entries[0].place.column, 1);
    const YamlNode& list = root.entries[0].value;
    ASSERT_EQ(list.kind, YamlKind::kSequence);
    ASSERT_EQ(list.items.size(), 2U);
    EXPECT_EQ(list.items[0].text, "1");
    EXPECT_FALSE(list.items[0].quoted);
    EXPECT_EQ(list.items[1].text, "2");
    EXPECT_TRUE(list.items[1].quoted);
    EXPECT_EQ(list.items[1].place.column, 8);
    const YamlNode& inner = root.entries[1].value;
    ASSERT_EQ(inner.kind, YamlKind::kMapping);
    EXPECT_EQ(inner.entries[0].place.line, 4);
    EXPECT_EQ(inner.entries[0].value.kind, YamlKind::kNull);
}

TEST(YamlTree, AcceptsWindowsLineEndsAndUtf8) {
    const YamlNode root = parse_yaml("a: 1\r\nb: \xc2\xb5s\r\n", "t.yaml");
    ASSERT_EQ(root.entries.size(), 2U);
    EXPECT_EQ(root.entries[0].value.text, "1");
    EXPECT_EQ(root.entries[1].value.text, "\xc2\xb5s");
}

TEST(YamlTree, RefusesWhatIsNotOneTextDocument) {
    EXPECT_EQ(error_of(""), "t.yaml: empty file, expected a mapping");
    EXPECT_EQ(error_of("# only a comment\n"), "t.yaml: empty file, expected a mapping");
    EXPECT_EQ(error_of(std::string_view("a: 1\0", 5)),
              "t.yaml:1:5: got byte 0x00, expected UTF-8 text without control characters");
    EXPECT_EQ(error_of("\x7f"
                       "ELF\x02\x01"),
              "t.yaml:1:1: got byte 0x7f, expected UTF-8 text without control characters");
    EXPECT_EQ(error_of("\xff\xfe"
                       "a"),
              "t.yaml:1:1: got byte 0xff, expected UTF-8 text without control characters");
    EXPECT_EQ(error_of("a: \xc0\x80"), "t.yaml:1:4: got byte 0xc0, expected UTF-8 text without control characters");
    EXPECT_EQ(error_of("a: \xe2\x82"), "t.yaml:1:4: got byte 0xe2, expected UTF-8 text without control characters");
    EXPECT_EQ(error_of("a:\n \tb: 1\n"), "t.yaml:2:2: got a tab in the indentation, expected spaces");
    EXPECT_EQ(error_of("a: 1\n---\nb: 2\n"),
              "t.yaml:2:1: a second document starts here, expected one document per file");
}

TEST(YamlTree, LimitsSizeDepthAndKeys) {
    const std::size_t limit = std::size_t{1} << 20;
    EXPECT_EQ(error_of("a: 1\n#" + std::string(limit - 6, 'x')), "accepted");
    EXPECT_EQ(error_of("a: 1\n#" + std::string(limit - 5, 'x')), "t.yaml: larger than the limit of 1048576 bytes");
    EXPECT_EQ(error_of(std::string(16, '[') + std::string(16, ']')), "accepted");
    EXPECT_EQ(error_of(std::string(17, '[') + std::string(17, ']')),
              "t.yaml:1:17: nested deeper than the limit of 16 levels");
    EXPECT_EQ(error_of(std::string(20000, '[') + std::string(20000, ']')),
              "t.yaml:1:17: nested deeper than the limit of 16 levels");
    std::string keys;
    // Not "k" + std::to_string(i): GCC 12 sees an overlap in that where there is none (-Wrestrict, PR 105651).
    for (int i = 0; i < 1024; ++i) keys.append("k").append(std::to_string(i)).append(": 1\n");
    EXPECT_EQ(error_of(keys), "accepted");
    EXPECT_EQ(error_of(keys + "x: 1\n"), "t.yaml:1025:1: more than the limit of 1024 keys in one mapping");
}

}  // namespace
}  // namespace sluice

#include "scenarios/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <utility>

#include "base/error.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 20;
constexpr std::size_t kDeepest = 16;

[[noreturn]] void refuse(std::string_view origin, YamlPlace place, std::string_view message) {
    throw InputError(fmt::format("{}:{}:{}: {}", origin, place.line, place.column, message));
}

YamlPlace to_place(const YAML::Mark& mark) {
    if (mark.is_null()) return {};
    return {mark.line + 1, mark.column + 1};
}

// Builds the tree from the parser's events. Events, not YAML::Node, because nodes hide duplicate keys and follow
// aliases (a few lines of which can stand for gigabytes).
class TreeBuilder : public YAML::EventHandler {
public:
    explicit TreeBuilder(std::string_view origin) : origin_(origin) {}

    YamlNode take_root() { return std::move(root_); }

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (std::exchange(started_, true))
            refuse(origin_, to_place(mark), "a second document starts here, expected one document per file");
    }
    void OnDocumentEnd() override {}

    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, "", anchor, YamlKind::kNull, ""); }

    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        refuse(origin_, to_place(mark), "aliases are not supported, expected the value itself");
    }

    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& text) override {
        add(mark, tag, anchor, YamlKind::kScalar, text);
    }

    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        open(add(mark, tag, anchor, YamlKind::kSequence, ""));
    }
    void OnSequenceEnd() override { open_.pop_back(); }

    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        open(add(mark, tag, anchor, YamlKind::kMapping, ""));
    }
    void OnMapEnd() override { open_.pop_back(); }

private:
    // A mapping gets key, value, key, value: `awaits_value` tells which is next.
    struct Open {
        YamlNode* node;
        bool awaits_value = false;
    };

    void open(YamlNode& node) {
        if (open_.size() == kDeepest)
            refuse(origin_, node.place, fmt::format("nested deeper than the limit of {} levels", kDeepest));
        open_.push_back({&node});
    }

    // Pointers to open nodes stay good: a vector grows only while none of its elements is open.
    YamlNode& add(const YAML::Mark& mark, std::string_view tag, YAML::anchor_t anchor, YamlKind kind,
                  std::string_view text) {
        const YamlPlace place = to_place(mark);
        if (anchor != 0) refuse(origin_, place, "anchors are not supported, expected the value itself");
        if (!tag.empty() && tag != "?" && tag != "!")  // "?" and "!": no tag, plain and quoted
            refuse(origin_, place, fmt::format("tag {} is not supported, expected a plain value", quote(tag)));
        YamlNode node;
        node.kind = kind;
        node.quoted = tag == "!";
        node.place = place;
        node.text = text;
        if (open_.empty()) return root_ = std::move(node);
        Open& parent = open_.back();
        if (parent.node->kind == YamlKind::kSequence) return parent.node->items.emplace_back(std::move(node));
        if (std::exchange(parent.awaits_value, !parent.awaits_value))
            return parent.node->entries.back().value = std::move(node);
        return add_key(*parent.node, std::move(node));
    }

    YamlNode& add_key(YamlNode& mapping, YamlNode key) {
        if (key.kind != YamlKind::kScalar) refuse(origin_, key.place, "expected a name as key");
        if (key.text == "<<") refuse(origin_, key.place, "merge keys are not supported, expected the keys themselves");
        for (const YamlEntry& entry : mapping.entries)
            if (entry.key == key.text)
                refuse(origin_, key.place,
                       fmt::format("key {} is given twice, first in line {}", quote(key.text), entry.place.line));
        if (mapping.entries.size() == kMostKeys)
            refuse(origin_, key.place, fmt::format("more than the limit of {} keys in one mapping", kMostKeys));
        return mapping.entries.emplace_back(YamlEntry{std::move(key.text), key.place, {}}).value;
    }

    static constexpr std::size_t kMostKeys = 1024;  // duplicates are searched one by one

    std::string_view origin_;
    bool started_ = false;
    YamlNode root_;
    std::vector<Open> open_;
};

// Bytes in the UTF-8 character that starts at `at`, or 0 when none does that belongs in a text: no control characters,
// nothing written longer than needed, no surrogates, nothing beyond Unicode.
std::size_t character_length(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(at);
    if (first < 0x80)
        return (first >= 0x20 && first != 0x7f) || first == '\n' || first == '\r' || first == '\t' ? 1 : 0;
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || at + length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(at + i) & 0xc0) != 0x80) return 0;
    const unsigned char second = byte(at + 1);
    const bool bad = (first == 0xc2 && second < 0xa0) ||                                      // U+0080 ... U+009F
                     (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90) ||  // too long
                     (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
    return bad ? 0 : length;
}

// The scanner guesses encodings, ends at a NUL and calls a tab in the indentation "end of map not found": only text
// that it reads well reaches it.
void expect_text(std::string_view text, std::string_view origin) {
    if (text.size() > kLongestText)
        throw InputError(fmt::format("{}: larger than the limit of {} bytes", origin, kLongestText));
    YamlPlace place;
    bool indentation = true;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t length = character_length(text, i);
        if (length == 0)
            refuse(origin, place,
                   fmt::format("got byte 0x{:02x}, expected UTF-8 text without control characters",
                               static_cast<unsigned char>(text[i])));
        if (indentation && text[i] == '\t') refuse(origin, place, "got a tab in the indentation, expected spaces");
        indentation = text[i] == '\n' || (indentation && text[i] == ' ');
        ++place.column;
        if (text[i] == '\n') place = {place.line + 1, 1};
        i += length;
    }
}

// What usually lies behind a message of the library that says little by itself.
std::string_view hint_for(std::string_view message) {
    if (message == "illegal map value")
        return "; a second ': ' in one value: check the indentation of this line, or put the text in quotes";
    return "";
}

}  // namespace

YamlNode parse_yaml(std::string_view text, std::string_view origin) {
    expect_text(text, origin);
    std::istringstream stream{std::string(text)};
    TreeBuilder builder(origin);
    try {
        YAML::Parser parser(stream);
        if (!parser.HandleNextDocument(builder))
            throw InputError(fmt::format("{}: empty file, expected a mapping", origin));
        while (parser.HandleNextDocument(builder)) continue;  // the builder refuses a second document
    } catch (const YAML::Exception& error) {
        refuse(origin, to_place(error.mark), fmt::format("not valid YAML: {}{}", error.msg, hint_for(error.msg)));
    }
    return builder.take_root();
}

}  // namespace sluice

#include "scenarios/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

constexpr std::size_t kDeepest = 16;

[[noreturn]] void refuse(std::string_view origin, YamlPlace place, std::string_view message) {
    throw InputError(fmt::format("{}:{}:{}: {}", origin, place.line, place.column, message));
}

// Follows the parser's events through the text, because they come without places. Only text that the parser has
// accepted lies before the end of the current token, so a token's first character tells where it ends.
class TokenCursor {
public:
    explicit TokenCursor(std::string_view text) : text_(text) {
        if (text.starts_with("\xef\xbb\xbf")) at_ = 3;
    }

    // Moves to the next token and returns its place.
    YamlPlace next() {
        while (at_ < text_.size() && kBetween.find(text_[at_]) != kBetween.npos) step();
        return place_;
    }

    // Moves past the token and returns its text.
    std::string_view take() {
        const std::size_t begin = at_, end = token_end();
        while (at_ < end) step();
        return text_.substr(begin, end - begin);
    }

    // The place of a byte, or the cursor's where that is later.
    YamlPlace place_of(std::size_t byte) const {
        TokenCursor ahead = *this;
        while (ahead.at_ < std::min(byte, text_.size())) ahead.step();
        return ahead.place_;
    }

private:
    static constexpr std::string_view kBetween = " \t\r\n,:";

    std::size_t token_end() const {
        if (at_ == text_.size()) return at_;
        const char first = text_[at_];
        if (first == '"') return string_end();
        if (first == '{' || first == '}' || first == '[' || first == ']') return at_ + 1;
        return std::min(text_.find_first_of(" \t\r\n,]}", at_), text_.size());
    }

    std::size_t string_end() const {
        std::size_t end = at_ + 1;
        while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
        return std::min(end + 1, text_.size());
    }

    // Columns count characters: bytes that continue one do not move on.
    void step() {
        if (text_[at_] == '\n')
            place_ = {place_.line + 1, 1};
        else if ((static_cast<unsigned char>(text_[at_]) & 0xc0) != 0x80)
            ++place_.column;
        ++at_;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    YamlPlace place_;
};

constexpr int kNumberOverflow = 406;  // the library's id of that error

// The library's message without its own prefix and without the text it quotes, which may be long or not UTF-8.
std::string reason(const nlohmann::json::exception& error) {
    if (error.id == kNumberOverflow) return "the number is out of range";
    constexpr std::string_view kPrefix = "syntax error ";
    std::string_view message = error.what();
    if (const std::size_t at = message.find(kPrefix); at != message.npos) message.remove_prefix(at + kPrefix.size());
    return std::string(message.substr(0, message.find("; last read: ")));
}

// Builds the tree from the parser's events. Events, not nlohmann::json, because its values have no places and its
// objects hide duplicate keys.
class JsonTreeBuilder : public nlohmann::json_sax<nlohmann::json> {
public:
    JsonTreeBuilder(std::string_view text, std::string_view origin) : origin_(origin), cursor_(text) {}

    YamlNode take_root() { return std::move(root_); }

    bool null() override { return add(YamlKind::kNull), true; }
    bool boolean(bool) override { return add_bare(); }
    bool number_integer(std::int64_t) override { return add_bare(); }
    bool number_unsigned(std::uint64_t) override { return add_bare(); }
    bool number_float(double, const std::string&) override { return add_bare(); }
    bool string(std::string& text) override {
        YamlNode& node = add(YamlKind::kScalar);
        node.quoted = true;
        node.text = std::move(text);
        return true;
    }
    bool binary(nlohmann::json::binary_t&) override { return false; }  // binary formats only

    bool start_object(std::size_t) override { return open(YamlKind::kMapping); }
    bool end_object() override { return close(); }
    bool start_array(std::size_t) override { return open(YamlKind::kSequence); }
    bool end_array() override { return close(); }

    bool key(std::string& text) override {
        const YamlPlace place = cursor_.next();
        cursor_.take();
        Open& object = open_.back();
        const auto [first, is_new] = object.lines.emplace(text, place.line);
        if (!is_new)
            refuse(origin_, place, fmt::format("key {} is given twice, first in line {}", quote(text), first->second));
        object.node->entries.push_back({std::move(text), place, {}});
        return true;
    }

    // `bytes` counts those read, the offending one included; the end of the text counts as one.
    bool parse_error(std::size_t bytes, const std::string&, const nlohmann::json::exception& error) override {
        const bool whole_token = error.id == kNumberOverflow;
        refuse(origin_, whole_token ? cursor_.next() : cursor_.place_of(bytes == 0 ? 0 : bytes - 1),
               fmt::format("not valid JSON: {}", reason(error)));
    }

private:
    struct Open {
        YamlNode* node;
        std::map<std::string, int> lines;  // of an object's keys so far
    };

    bool open(YamlKind kind) {
        YamlNode& node = add(kind);
        if (open_.size() == kDeepest)
            refuse(origin_, node.place, fmt::format("nested deeper than the limit of {} levels", kDeepest));
        open_.push_back({&node, {}});
        return true;
    }

    bool close() {
        cursor_.next();
        cursor_.take();
        open_.pop_back();
        return true;
    }

    bool add_bare() {
        std::string_view token;
        add(YamlKind::kScalar, &token).text = token;
        return true;
    }

    // Pointers to open nodes stay good: a vector grows only while none of its elements is open.
    YamlNode& add(YamlKind kind, std::string_view* token = nullptr) {
        YamlNode& node = open_.empty()                                   ? root_
                         : open_.back().node->kind == YamlKind::kMapping ? open_.back().node->entries.back().value
                                                                         : open_.back().node->items.emplace_back();
        node.kind = kind;
        node.place = cursor_.next();
        const std::string_view text = cursor_.take();
        if (token != nullptr) *token = text;
        return node;
    }

    std::string_view origin_;
    TokenCursor cursor_;
    YamlNode root_;
    std::vector<Open> open_;
};

}  // namespace

YamlNode parse_json(std::string_view text, std::string_view origin, std::size_t longest) {
    if (text.size() > longest)
        throw InputError(fmt::format("{}: larger than the limit of {} bytes", origin, longest));
    // The library takes a NUL for the end of the text.
    if (const std::size_t nul = text.find('\0'); nul != text.npos)
        refuse(origin, TokenCursor(text).place_of(nul), "not valid JSON: got byte 0x00");
    JsonTreeBuilder builder(text, origin);
    nlohmann::json::sax_parse(text.begin(), text.end(), &builder);  // errors throw in parse_error
    return builder.take_root();
}

}  // namespace sluice

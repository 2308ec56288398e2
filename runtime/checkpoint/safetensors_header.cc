#include "runtime/checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

// Follows the parser's events: the format has few levels, so that what a value is for is known where it begins, nothing
// foreign is stored, and names given twice are seen.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
public:
    explicit HeaderReader(std::string_view origin) : origin_(origin) {}

    SafetensorsHeader take() && { return std::move(header_); }

    bool start_object(std::size_t) override {
        if (level_ == Level::kOutside) return enter(Level::kTop);
        if (level_ != Level::kTop) refuse_value("an object");
        if (key_ == kMetadataKey) return enter(Level::kMetadata);
        header_.entries.push_back({key_, {}, {}, 0, 0});
        fields_.clear();
        return enter(Level::kTensor);
    }

    bool end_object() override {
        if (level_ == Level::kTensor && fields_.size() != 3)
            refuse(fmt::format("tensor {}: expected dtype, shape and data_offsets", quote(key_)));
        return enter(level_ == Level::kTop ? Level::kOutside : Level::kTop);
    }

    bool start_array(std::size_t) override {
        if (level_ != Level::kTensor || (field_ != "shape" && field_ != "data_offsets")) refuse_value("a list");
        numbers_.clear();
        return enter(Level::kNumbers);
    }

    bool end_array() override {
        if (field_ == "shape") {
            header_.entries.back().shape = numbers_;
        } else {
            if (numbers_.size() != 2)
                refuse(fmt::format("tensor {}: data_offsets has {} numbers, expected 2", quote(key_), numbers_.size()));
            header_.entries.back().begin = numbers_[0];
            header_.entries.back().end = numbers_[1];
        }
        return enter(Level::kTensor);
    }

    bool key(std::string& text) override {
        if (level_ == Level::kTensor) return begin_field(text);
        if (level_ == Level::kMetadata) {
            metadata_key_ = text;
            return true;
        }
        key_ = text;
        if (!names_.insert(text).second) refuse(fmt::format("tensor {} is given twice", quote(text)));
        return true;
    }

    bool string(std::string& text) override {
        if (level_ == Level::kMetadata) {
            if (!header_.metadata.emplace(metadata_key_, text).second)
                refuse(fmt::format("metadata {} is given twice", quote(metadata_key_)));
            return true;
        }
        if (level_ != Level::kTensor || field_ != "dtype") refuse_value("a string");
        const auto type = find_tensor_type(text);
        if (!type) refuse(fmt::format("tensor {}: dtype {}, which is not known", quote(key_), quote(text)));
        header_.entries.back().type = *type;
        return true;
    }

    bool number_unsigned(std::uint64_t value) override {
        if (level_ != Level::kNumbers) refuse_value("a number");
        if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) refuse_number();
        numbers_.push_back(static_cast<std::int64_t>(value));
        return true;
    }

    bool number_integer(std::int64_t) override { refuse_number(); }
    bool number_float(double, const std::string&) override { refuse_number(); }
    bool null() override { refuse_value("null"); }
    bool boolean(bool) override { refuse_value("a boolean"); }
    bool binary(nlohmann::json::binary_t&) override { return false; }  // binary formats only

    bool parse_error(std::size_t bytes, const std::string&, const nlohmann::json::exception&) override {
        refuse(fmt::format("its header is not valid JSON at byte {}", bytes == 0 ? 0 : bytes - 1));
    }

private:
    enum class Level : std::uint8_t { kOutside, kTop, kTensor, kNumbers, kMetadata };

    bool enter(Level level) {
        level_ = level;
        return true;
    }

    bool begin_field(const std::string& text) {
        if (text != "dtype" && text != "shape" && text != "data_offsets")
            refuse(fmt::format("tensor {}: key {}, expected dtype, shape or data_offsets", quote(key_), quote(text)));
        if (!fields_.insert(text).second) refuse(fmt::format("tensor {}: {} is given twice", quote(key_), text));
        field_ = text;
        return true;
    }

    [[noreturn]] void refuse(std::string_view what) const { throw InputError(fmt::format("{}: {}", origin_, what)); }

    [[noreturn]] void refuse_value(std::string_view got) const {
        switch (level_) {
            case Level::kOutside:
                refuse(fmt::format("its header is {}, expected an object", got));
            case Level::kTop:
                refuse(fmt::format("tensor {}: {}, expected an object", quote(key_), got));
            case Level::kMetadata:
                refuse(fmt::format("metadata {}: {}, expected a string", quote(metadata_key_), got));
            case Level::kTensor:
                refuse(fmt::format("tensor {}: {} is {}, expected {}", quote(key_), field_, got,
                                   field_ == "dtype" ? "a string" : "a list of numbers"));
            case Level::kNumbers:
                refuse(fmt::format("tensor {}: {} in {}, expected numbers", quote(key_), got, field_));
        }
        SLUICE_CHECK(false, "a level of the header");
    }

    [[noreturn]] void refuse_number() const {
        if (level_ != Level::kNumbers) refuse_value("a number");
        refuse(
            fmt::format("tensor {}: {} has a number that is not an integer from 0 to 2^63 - 1", quote(key_), field_));
    }

    std::string_view origin_;
    SafetensorsHeader header_;
    Level level_ = Level::kOutside;
    std::string key_, metadata_key_, field_;  // the last of each
    std::set<std::string> names_, fields_;
    std::vector<std::int64_t> numbers_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view origin) {
    // The library takes a NUL for the end of the text.
    if (const std::size_t nul = json.find('\0'); nul != json.npos)
        throw InputError(fmt::format("{}: its header is not valid JSON at byte {}", origin, nul));
    HeaderReader reader(origin);
    nlohmann::json::sax_parse(json.begin(), json.end(), &reader);  // errors throw
    return std::move(reader).take();
}

}  // namespace sluice

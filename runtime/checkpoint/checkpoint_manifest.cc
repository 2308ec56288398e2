#include "runtime/checkpoint/checkpoint_manifest.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFormat = "sluice-checkpoint";
constexpr std::string_view kBeforeChecksum = "{\"crc32\": \"", kAfterChecksum = "\",\n";
constexpr std::size_t kDigits = 8, kFirstLine = kBeforeChecksum.size() + kDigits + kAfterChecksum.size();

std::string hex(std::uint32_t value) { return fmt::format("{:08x}", value); }

std::optional<std::uint32_t> parse_hex(std::string_view digits) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc{} || hex(value) != digits) return std::nullopt;
    return value;
}

std::uint32_t crc32_of_text(std::string_view text) { return crc32_of(std::as_bytes(std::span(text))); }

class ManifestReader {
public:
    ManifestReader(std::string_view text, std::string_view origin) : text_(text), origin_(origin) {}

    CheckpointManifest read() const {
        check_checksum();
        const ordered_json json = parse();
        if (text_of(json, "format") != kFormat)
            refuse(fmt::format("format {}, expected {}", quote(text_of(json, "format")), quote(kFormat)));
        if (const std::int64_t version = number_of(json, "version"); version != kCheckpointVersion)
            refuse(fmt::format("version {} of a checkpoint, expected {}", version, kCheckpointVersion));
        CheckpointManifest manifest{{number_of(json, "step"), number_of(json, "data_position"), text_of(json, "data"),
                                     text_of(json, "schedule"), text_of(json, "plan")},
                                    {}};
        const auto files = json.find("files");
        if (files == json.end() || !files->is_array()) refuse("files: expected a list");
        std::set<std::string> names;
        for (const ordered_json& file : *files) {
            manifest.files.push_back(read_record(file));
            if (!names.insert(manifest.files.back().name).second)
                refuse(fmt::format("file {} is given twice", quote(manifest.files.back().name)));
        }
        return manifest;
    }

private:
    [[noreturn]] void refuse(std::string_view what) const { throw InputError(fmt::format("{}: {}", origin_, what)); }

    void check_checksum() const {
        if (!text_.starts_with(kBeforeChecksum) || text_.size() < kFirstLine ||
            text_.substr(kBeforeChecksum.size() + kDigits, kAfterChecksum.size()) != kAfterChecksum)
            refuse("does not begin with a line of its checksum, expected the manifest of a checkpoint");
        const auto expected = parse_hex(text_.substr(kBeforeChecksum.size(), kDigits));
        const std::uint32_t got = crc32_of_text(text_.substr(kFirstLine));
        if (!expected || got != *expected)
            refuse(fmt::format("checksum {}, expected {}: the file is damaged or was edited", hex(got),
                               quote(text_.substr(kBeforeChecksum.size(), kDigits))));
    }

    ordered_json parse() const {
        ordered_json json = ordered_json::parse(text_, nullptr, false);
        if (!json.is_object()) refuse("is not a JSON object");
        return json;
    }

    std::string text_of(const ordered_json& object, const char* key) const {
        const auto value = object.find(key);
        if (value == object.end() || !value->is_string()) refuse(fmt::format("{}: expected a string", key));
        return value->get<std::string>();
    }

    std::int64_t number_of(const ordered_json& object, const char* key) const {
        const auto value = object.find(key);
        if (value == object.end() || !value->is_number_integer() || value->get<std::int64_t>() < 0)
            refuse(fmt::format("{}: expected an integer from 0 to 2^63 - 1", key));
        return value->get<std::int64_t>();
    }

    FileRecord read_record(const ordered_json& file) const {
        if (!file.is_object()) refuse("files: expected objects");
        const std::string file_name = text_of(file, "name");
        if (file_name.empty() || file_name[0] == '.' || file_name.find('/') != file_name.npos ||
            file_name.find('\0') != file_name.npos || file_name == kManifestName)
            refuse(fmt::format("file {}: expected a plain name", quote(file_name)));
        const auto crc32 = parse_hex(text_of(file, "crc32"));
        if (!crc32) refuse(fmt::format("file {}: crc32: expected 8 hex digits", quote(file_name)));
        return {file_name, Bytes{number_of(file, "bytes")}, *crc32};
    }

    std::string_view text_, origin_;
};

}  // namespace

std::string manifest_text(const CheckpointManifest& manifest) {
    const CheckpointState& state = manifest.state;
    ordered_json json{{"format", kFormat},  {"version", kCheckpointVersion},
                      {"step", state.step}, {"data_position", state.data_position},
                      {"data", state.data}, {"schedule", state.schedule},
                      {"plan", state.plan}, {"files", ordered_json::array()}};
    for (const FileRecord& file : manifest.files)
        json["files"].push_back({{"name", file.name}, {"bytes", file.bytes.value}, {"crc32", hex(file.crc32)}});
    // What is not UTF-8 is replaced: a plan or a path must never keep a checkpoint from being written.
    const std::string body = json.dump(2, ' ', false, ordered_json::error_handler_t::replace).substr(2) + "\n";
    return fmt::format("{}{}{}{}", kBeforeChecksum, hex(crc32_of_text(body)), kAfterChecksum, body);
}

CheckpointManifest parse_manifest(std::string_view text, std::string_view origin) {
    return ManifestReader(text, origin).read();
}

}  // namespace sluice

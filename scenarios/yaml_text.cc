#include "scenarios/yaml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace sluice {

std::string yaml_text(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') quoted += '\\';
        const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
        quoted += control ? ' ' : c;
    }
    return quoted + '"';
}

std::string decimal(double value) {
    SLUICE_CHECK(std::isfinite(value) && value >= 0, "a number of a file is finite and not negative");
    if (value == 0) return "0";
    const double magnitude = std::floor(std::log10(value));
    const double unit = std::pow(10, 3 - magnitude);
    const double rounded = std::round(value * unit) / unit;
    std::string text = fmt::format("{:.{}f}", rounded, static_cast<int>(std::max(0.0, 3 - magnitude)));
    if (text.find('.') != std::string::npos) {
        while (text.ends_with('0')) text.pop_back();
        if (text.ends_with('.')) text.pop_back();
    }
    return text;
}

std::string yaml_quantity(Bytes bytes) {
    if (bytes.value > 0 && bytes.value % (1 << 20) == 0) return fmt::format("{} MiB", bytes.value >> 20);
    if (bytes.value > 0 && bytes.value % (1 << 10) == 0) return fmt::format("{} KiB", bytes.value >> 10);
    return fmt::format("{} B", bytes.value);
}

std::string yaml_quantity(Seconds time) { return decimal(time.value * 1e6) + " us"; }
std::string yaml_quantity(BytesPerSecond rate) { return decimal(rate.value / 1e9) + " GB/s"; }
std::string yaml_quantity(FlopsPerSecond rate) { return decimal(rate.value / 1e9) + " GFLOP/s"; }

std::string file_head(std::string_view name, const FileOrigin& origin) {
    std::string text;
    for (std::size_t begin = 0; begin < origin.comment.size();) {
        const std::size_t end = std::min(origin.comment.find('\n', begin), origin.comment.size());
        text += fmt::format("# {}\n", origin.comment.substr(begin, end - begin));
        begin = end + 1;
    }
    text += fmt::format("name: {}\nsources:\n", name);
    for (const FileOrigin::Source& source : origin.sources) {
        text += fmt::format("  - {{id: {}, title: {}", source.id, yaml_text(source.title));
        if (!source.note.empty()) text += fmt::format(", note: {}", yaml_text(source.note));
        text += "}\n";
    }
    return text;
}

std::string origin_text(const FileOrigin& origin, std::string_view key, std::string_view separator) {
    const FileOrigin::Block& block = origin.of(key);
    std::string text = "source: " + (block.source.empty() ? origin.sources.at(0).id : block.source);
    if (!block.note.empty()) text += fmt::format("{}note: {}", separator, yaml_text(block.note));
    return text;
}

}  // namespace sluice

// Any bytes as the manifest of a checkpoint: an InputError of one line, or one that is written and read again alike.
// The input is tried as it is and with the checksum that it ought to have, since no mutation would find that.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "runtime/checkpoint/checkpoint_manifest.h"

namespace {

void feed(std::string_view text) {
    try {
        const sluice::CheckpointManifest manifest = sluice::parse_manifest(text, "fuzz");
        if (!(sluice::parse_manifest(sluice::manifest_text(manifest), "again") == manifest)) std::abort();
    } catch (const sluice::InputError& error) {
        const std::string_view message = error.what();
        if (message.starts_with("again") || message.find('\n') != std::string_view::npos) std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    feed(text);
    if (const std::size_t line = text.find('\n'); line != text.npos) {
        const std::string_view body = text.substr(line + 1);
        feed(fmt::format("{{\"crc32\": \"{:08x}\",\n{}", sluice::crc32_of(std::as_bytes(std::span(body))), body));
    }
    return 0;
}

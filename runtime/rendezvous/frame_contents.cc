#include "runtime/rendezvous/frame_contents.h"

#include "runtime/rendezvous/wire.h"

namespace sluice {

std::vector<std::byte> encode_text(const std::string& text) {
    WireWriter writer;
    writer.text(text);
    return writer.take();
}

std::string decode_text(std::span<const std::byte> payload, std::size_t most) {
    WireReader reader(payload);
    std::string text = reader.text(most);
    reader.expect_end();
    return text;
}

std::vector<std::byte> encode_time(std::int64_t nanoseconds) {
    WireWriter writer;
    writer.u64(static_cast<std::uint64_t>(nanoseconds));
    return writer.take();
}

std::int64_t decode_time(std::span<const std::byte> payload) {
    WireReader reader(payload);
    const auto nanoseconds = static_cast<std::int64_t>(reader.u64());
    reader.expect_end();
    return nanoseconds;
}

std::vector<std::byte> encode(const StepProgress& progress) {
    WireWriter writer;
    writer.u8(progress.in_step ? 1 : 0);
    writer.u8(progress.waiting ? 1 : 0);
    writer.u64(progress.ended);
    return writer.take();
}

StepProgress decode_progress(std::span<const std::byte> payload) {
    WireReader reader(payload);
    StepProgress progress;
    progress.in_step = reader.u8() != 0;
    progress.waiting = reader.u8() != 0;
    progress.ended = reader.u64();
    reader.expect_end();
    return progress;
}

}  // namespace sluice

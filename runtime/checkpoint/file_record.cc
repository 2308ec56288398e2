#include "runtime/checkpoint/file_record.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

#include "base/input_file.h"

namespace sluice {

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t so_far) {
    return static_cast<std::uint32_t>(::crc32_z(so_far, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

FileRecord record_of(const std::filesystem::path& path) {
    const InputFile file(path);
    FileRecord record{path.filename().string(), file.size(), 0};
    std::vector<std::byte> piece(static_cast<std::size_t>(std::min(file.size(), 1_MiB).value));
    for (std::int64_t at = 0; at < file.size().value;) {
        const auto left = static_cast<std::size_t>(file.size().value - at);
        const auto part = std::span(piece).first(std::min(piece.size(), left));
        file.read_at(at, part);
        record.crc32 = crc32_of(part, record.crc32);
        at += static_cast<std::int64_t>(part.size());
    }
    return record;
}

RecordedFile::RecordedFile(const std::filesystem::path& path) : file_(path), record_{path.filename().string(), {}, 0} {}

void RecordedFile::append(std::span<const std::byte> bytes) {
    file_.append(bytes);
    record_.bytes += Bytes{static_cast<std::int64_t>(bytes.size())};
    record_.crc32 = crc32_of(bytes, record_.crc32);
}

void RecordedFile::append(std::string_view text) { append(std::as_bytes(std::span(text))); }

FileRecord RecordedFile::finish() {
    file_.finish();
    return record_;
}

}  // namespace sluice

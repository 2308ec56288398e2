// What a file must be: its name, size and checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/durable_file.h"
#include "base/units.h"

namespace sluice {

struct FileRecord {
    std::string name;  // without folders
    Bytes bytes{};
    std::uint32_t crc32 = 0;  // of gzip, PNG and zlib: ISO 3309, polynomial 0x04c11db7 reflected
    friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t so_far = 0);

// Reads the whole file. Throws as InputFile.
FileRecord record_of(const std::filesystem::path& path);

// A durable file that keeps its own record.
class RecordedFile {
public:
    explicit RecordedFile(const std::filesystem::path& path);
    void append(std::span<const std::byte> bytes);
    void append(std::string_view text);
    FileRecord finish();  // as DurableFile::finish()

private:
    DurableFile file_;
    FileRecord record_;
};

}  // namespace sluice

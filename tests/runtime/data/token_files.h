// Builds token files of other trainers in memory, and writes them.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "base/file.h"

namespace sluice {

template <class T>
void append_value(std::string& to, T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    to.append(bytes, sizeof value);
}

template <class Stored>
std::string stored_tokens(const std::vector<std::int64_t>& ids) {
    std::string bytes;
    for (const std::int64_t id : ids) append_value(bytes, static_cast<Stored>(id));
    return bytes;
}

inline std::string llmc_header(std::int32_t magic, std::int32_t version, std::int32_t tokens) {
    std::string header;
    append_value(header, magic);
    append_value(header, version);
    append_value(header, tokens);
    header.resize(1024, '\0');
    return header;
}

struct MegatronIndex {
    std::uint64_t version = 1;
    std::uint8_t dtype = 8;
    std::vector<std::int32_t> lengths;
    std::vector<std::int64_t> pointers, documents;
    std::string bytes() const {
        std::string index("MMIDIDX\0\0", 9);
        append_value(index, version);
        append_value(index, dtype);
        append_value(index, static_cast<std::uint64_t>(lengths.size()));
        append_value(index, static_cast<std::uint64_t>(documents.size()));
        for (const std::int32_t length : lengths) append_value(index, length);
        for (const std::int64_t pointer : pointers) append_value(index, pointer);
        for (const std::int64_t document : documents) append_value(index, document);
        return index;
    }
};

inline std::filesystem::path write_bytes(const std::filesystem::path& path, const std::string& bytes) {
    write_file(path, [&](std::ostream& out) { out << bytes; });
    return path;
}

}  // namespace sluice

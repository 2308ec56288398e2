#include "runtime/data/open_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "runtime/data/llmc_layout.h"
#include "runtime/data/megatron_layout.h"

namespace sluice {
namespace {

bool is_there(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

// `name` without .bin and .idx.
TokenSource open_megatron(const std::filesystem::path& name, std::int64_t vocabulary) {
    std::filesystem::path index_path = name, data_path = name;
    const MappedFile index(index_path += ".idx");
    InputFile data(data_path += ".bin");
    const TokenLayout layout = megatron_layout(index.bytes(), index_path.string(), data.size(), data_path.string());
    return {std::move(data), layout, vocabulary};
}

TokenSource open_text(InputFile file, std::int64_t vocabulary) {
    constexpr std::int64_t kByteValues = 256;
    if (vocabulary < kByteValues)
        throw InputError(fmt::format("{}: text is one token per byte and needs a vocabulary of {} or more, got {}",
                                     file.path().string(), kByteValues, vocabulary));
    const TokenLayout layout{TokenEncoding::kUint8, Bytes{0}, Tokens{file.size().value}};
    return {std::move(file), layout, vocabulary};
}

}  // namespace

TokenSource open_tokens(const std::filesystem::path& path, std::int64_t vocabulary) {
    const std::filesystem::path extension = path.extension();
    const bool has_extension = extension == ".idx" || extension == ".bin";
    const std::filesystem::path name = has_extension ? path.parent_path() / path.stem() : path;
    std::filesystem::path index_path = name;
    index_path += ".idx";
    if (extension == ".idx" || (is_there(index_path) && (extension == ".bin" || !is_there(path))))
        return open_megatron(name, vocabulary);
    InputFile file(path);
    std::vector<std::byte> beginning(static_cast<std::size_t>(std::min(file.size(), kLlmcHeader).value));
    file.read_at(0, beginning);
    if (is_megatron_index(beginning))
        throw InputError(fmt::format("{}: is a Megatron index, expected it to be called NAME.idx", path.string()));
    if (is_llmc(beginning)) {
        const TokenLayout layout = llmc_layout(beginning, file.size(), path.string());
        return {std::move(file), layout, vocabulary};
    }
    if (extension == ".bin")
        throw InputError(
            fmt::format("{}: neither begins with a magic number of llm.c nor has {} of Megatron-LM beside it",
                        path.string(), index_path.filename().string()));
    return open_text(std::move(file), vocabulary);
}

}  // namespace sluice

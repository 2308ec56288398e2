// Files of text or tokens as a TokenSource.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/data/token_source.h"

namespace sluice {

// Opens what the file itself says it is:
//   NAME.idx, or NAME.bin with a NAME.idx beside it,   Megatron-LM (megatron_layout.h)
//   or NAME where only those two are there
//   begins with a magic number of llm.c                llm.c (llmc_layout.h)
//   any other file that is not called NAME.bin         text, one token per byte: ids 0 to 255
// `vocabulary` is the model's. Throws InputError in one line for a file that is missing, truncated, of another version
// or of no known layout, and for text where the vocabulary is below 256. Ids are checked as they are read.
TokenSource open_tokens(const std::filesystem::path& path, std::int64_t vocabulary);

}  // namespace sluice

// Token files of llm.c (https://github.com/karpathy/llm.c, dev/data/data_common.py): 256 little-endian int32 of header,
// namely magic, version and the number of tokens, the rest unused; then the tokens.
//
//   GPT-2     magic 20240520  version 1  uint16
//   Llama 3   magic 20240801  version 7  uint32
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/units.h"
#include "runtime/data/token_source.h"

namespace sluice {

inline constexpr Bytes kLlmcHeader{1024};

// Whether a file that begins with these bytes has one of the two magic numbers.
bool is_llmc(std::span<const std::byte> beginning);

// `header` is the file's first kLlmcHeader bytes, or the whole file where that is shorter. Throws InputError
// "origin: ..." for another magic or version, and where the size of the file is not what the header says.
TokenLayout llmc_layout(std::span<const std::byte> header, Bytes file_size, std::string_view origin);

}  // namespace sluice

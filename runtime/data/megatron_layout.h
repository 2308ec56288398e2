// Token files of Megatron-LM (megatron/core/datasets/indexed_dataset.py): NAME.bin has the tokens and nothing else,
// NAME.idx says how. The index is, little-endian and packed:
//
//   9 bytes "MMIDIDX" 00 00 | uint64 version 1 | uint8 dtype | uint64 sequences | uint64 documents + 1
//   int32 length of each sequence | int64 byte where each begins | int64 first sequence of each document, and the end
//
// dtype: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 6 float64, 7 float32, 8 uint16; the two floats are not tokens.
// Sequences are read one after another as one stream, across the ends of documents.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/units.h"
#include "runtime/data/token_source.h"

namespace sluice {

// Whether a file that begins with these bytes is such an index.
bool is_megatron_index(std::span<const std::byte> beginning);

// `index` is all of NAME.idx, `data_size` the size of NAME.bin. Every entry is checked: sequences lie one after another
// without gaps, documents are in order, the sum is the size of the data. Throws InputError "origin: ...".
TokenLayout megatron_layout(std::span<const std::byte> index, std::string_view index_origin, Bytes data_size,
                            std::string_view data_origin);

}  // namespace sluice

// What the writer and the reader of trace files share. Private to traces/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

inline constexpr std::string_view kTraceMagic = "SLTRACE\n";
inline constexpr std::uint32_t kTraceVersion = 1;
inline constexpr std::size_t kTraceChunkEntries = 16384;

// A chunk of 16384 events stays under 2 MB; only the header, with its labels, may grow. Longer: not a trace of ours.
inline constexpr std::size_t kMaxTraceChunkBytes = std::size_t{64} << 20;

// The least an entry can take in a file: two 8-byte times (one for a sample) and a byte for every other column.
// With it the reader tells from the header's counts whether the file can be whole before it makes room.
inline constexpr std::size_t kMinEventBytes = 27;
inline constexpr std::size_t kMinKernelBytes = 19;
inline constexpr std::size_t kMinMemoryBytes = 10;

}  // namespace sluice

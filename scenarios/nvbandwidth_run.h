// The output of NVIDIA's nvbandwidth, in its two forms: what it prints, and the JSON of its option -j. Formats:
// output.cpp, json_output.cpp and memcpy.h of nvbandwidth v0.8 (github.com/NVIDIA/nvbandwidth, 66746a3); v0.1 prints
// the same matrices.
//
// What is not kept: the host's name, bus ids.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct NvbandwidthRun {
    // One matrix. Where a test has several, `caption` tells them apart.
    struct Matrix {
        std::string test;     // "host_to_device_memcpy_ce"
        std::string caption;  // "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)"
        std::size_t rows = 0, columns = 0;
        std::vector<std::optional<double>> cells;  // by rows, in the caption's unit; empty: "N/A"
        std::optional<double> at(std::size_t row, std::size_t column) const { return cells[row * columns + column]; }
        bool in_gigabytes_per_second() const { return caption.ends_with("(GB/s)"); }
    };
    std::string version;               // "v0.8"; empty: not said
    std::string driver;                // "570.124.06"; empty: not said
    std::size_t gpus = 0;              // listed; 0: not said
    std::vector<std::string> devices;  // the models that differ, in order of appearance
    std::vector<Matrix> matrices;      // of tests that ran: others are left out
};

// Is this what nvbandwidth writes, and not something else?
bool is_nvbandwidth(std::string_view text);

// Throws InputError "origin:line:col: ..." for what does not follow the format or is cut off: rows of unequal length, a
// matrix whose sum is not the one that is printed with it.
NvbandwidthRun parse_nvbandwidth(std::string_view text, std::string_view origin);

}  // namespace sluice

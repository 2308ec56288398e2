// The output of one program of NVIDIA's nccl-tests, in its two forms: the table that it prints and the JSON of its
// option -J. Formats: src/util.cu of nccl-tests 2.19.6 (github.com/NVIDIA/nccl-tests, a0b82b2); tables of older ones,
// down to 2.0, differ in columns, which are found by their names.
//
// What is not kept: names of hosts (they are counted), environment variables, arguments, process ids, bus ids.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/message_figure.h"

namespace sluice {

struct NcclTestsRun {
    struct Member {
        std::size_t host = 0;  // counted in order of appearance
        int device = 0;        // as the program numbers them on that host
    };
    MessageKind kind = MessageKind::kAllGather;
    std::string version;                 // of nccl-tests, "2.19.6"; empty: not said
    std::string nccl;                    // of the library, "2.28.9"; empty: not said
    std::string date;                    // "2026-07-09"; empty: not said
    std::vector<Member> members;         // by rank
    std::vector<std::string> devices;    // the models that differ, in order of appearance
    std::vector<MessageFigure> figures;  // out of place, by appearance; `rails` is 0, whatever the hosts
    std::size_t hosts() const;
};

// All runs of one file: tables one after another, or one JSON text. `kind` is for programs that do not say which they
// are (before 2.17.4). Throws InputError "origin:line:col: ..." for what does not follow the format, contradicts itself
// or is cut off, for wrong elements, for fewer than two members and for other programs of nccl-tests.
std::vector<NcclTestsRun> parse_nccl_tests(std::string_view text, std::string_view origin,
                                           std::optional<MessageKind> kind = std::nullopt);

// "all_gather_perf", also as a path.
std::optional<MessageKind> find_nccl_test(std::string_view program);

}  // namespace sluice

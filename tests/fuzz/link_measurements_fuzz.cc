// Any bytes as output of nccl-tests or nvbandwidth: an InputError of one line, or figures within the bounds that what
// is made of them relies on.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "base/error.h"
#include "scenarios/nccl_tests_run.h"
#include "scenarios/nvbandwidth_run.h"

namespace {

void require(bool condition, std::string_view promise) {
    if (condition) return;
    std::cerr << "broken promise: " << promise << '\n';
    std::abort();
}

bool is_plain(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

void check(const sluice::NcclTestsRun& run) {
    require(run.members.size() >= 2 && run.hosts() <= run.members.size(), "two members or more, on hosts");
    require(!run.figures.empty() && !run.devices.empty(), "rows and GPUs");
    for (const std::string& device : run.devices) require(is_plain(device), "names are plain");
    for (const sluice::MessageFigure& f : run.figures) {
        require(f.kind == run.kind && f.members == run.members.size() && f.rails == 0, "figures are of the run");
        require(f.size.value > 0 && f.time.value > 0 && std::isfinite(f.time.value), "sizes and times are positive");
    }
}

void check(const sluice::NvbandwidthRun& run) {
    require(!run.matrices.empty(), "a matrix");
    for (const sluice::NvbandwidthRun::Matrix& m : run.matrices) {
        require(m.cells.size() == m.rows * m.columns && is_plain(m.test), "matrices are whole");
        for (const std::optional<double>& cell : m.cells) require(!cell || (*cell >= 0 && *cell <= 1e9), "cells");
    }
}

template <class Parse>
void feed(const Parse& parse) {
    try {
        parse();
    } catch (const sluice::InputError& error) {
        const std::string_view message = error.what();
        require(!message.empty() && message.find('\n') == message.npos, "a message is one line");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (sluice::is_nvbandwidth(text)) {
        feed([&] { check(sluice::parse_nvbandwidth(text, "fuzz")); });
        return 0;
    }
    feed([&] {
        for (const auto& run : sluice::parse_nccl_tests(text, "fuzz")) check(run);
    });
    feed([&] {
        for (const auto& run : sluice::parse_nccl_tests(text, "fuzz", sluice::MessageKind::kAllGather)) check(run);
    });
    return 0;
}

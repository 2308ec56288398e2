// The whole decoder in double, uncut: one sequence, one device, whole score matrices, derivatives by a tape. It shares
// no code with the runtime and finds its parameters by their names in a checkpoint, so it checks names and layouts,
// too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "scenarios/architecture.h"

namespace sluice {

struct ReferenceMatrix {
    std::int64_t rows = 0, columns = 0;
    std::vector<double> values;
    double& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * columns + c)]; }
    double at(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * columns + c)]; }
};

// By checkpoint name. Vectors are one row.
using ReferenceParameters = std::map<std::string, ReferenceMatrix>;

struct ReferenceResult {
    double loss = 0;                // mean over all tokens of all sequences
    ReferenceParameters gradients;  // of every parameter that was used
};

ReferenceResult reference_model(const Architecture& architecture, const ReferenceParameters& parameters,
                                const std::vector<std::vector<std::int32_t>>& inputs,
                                const std::vector<std::vector<std::int32_t>>& targets);

}  // namespace sluice

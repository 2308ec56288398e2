// Is a prediction as good as it has to be? docs/validation.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "validation/compare.h"

namespace sluice {

// Ratios: 0.1 is 10%. Absent: not judged.
struct Tolerances {
    std::optional<double> step;          // of the measured step
    std::optional<double> exposed_copy;  // difference of the exposed copies' shares of their steps
    std::optional<double> bubble;        // difference of the bubbles' shares of their steps
    std::optional<double> peak;          // of the measured live bytes of every pool; 0: to the byte, as arenas always
    std::optional<double> node_peak;     // the same of what the ranks of a node pin, in place of `peak`
    std::optional<double>
        every_class;  // of the measured busy time of every op class that has at least `least_class` of all
    std::map<std::string, double, std::less<>> classes;  // of that class, however small
    double least_class = 0.01;
};

struct Verdict {
    std::string what;  // "step", "exposed_copy", "peak of rank 3", "class gemm", "ops"
    bool passed = false;
    std::string got, tolerance;  // in words
};

// One for everything that is judged, and one for ops that a trace lacks.
std::vector<Verdict> judge(const Comparison&, const Tolerances&);

// "10%" or "0.5%" is 0.1 or 0.005. Throws InputError "place: got ..., expected a percentage ...".
double parse_percentage(std::string_view text, std::string_view place);

// A file of tolerances: lines "step 10%", "exposed_copy 2%", "bubble 3%", "peak 0%", "node_peak 2%", "classes 20%",
// "class gemm 10%"; "#" begins a comment. Replaces what it gives. Throws InputError "origin:line: ...".
void read_tolerances(std::string_view text, std::string_view origin, Tolerances& tolerances);

}  // namespace sluice

// `sluice plan SCENARIO --max-length`: the longest sequence that fits, and what fails at the next one.
#pragma once

#include <string>

#include "base/units.h"
#include "planner/max_length.h"
#include "scenarios/scenario.h"
#include "tools/sluice/progress_line.h"

namespace sluice {

struct MaxLengthAnswer {
    MaxLength length;
    Seconds estimate{}, replayed{};  // of the step at the longest length; 0 when there is none
};

// Throws InputError where the scenario lists the lengths of its subsequences, which give the sequence.
MaxLengthAnswer answer_max_length(const Scenario&, ProgressLine&);

std::string max_length_text(const Scenario&, const MaxLengthAnswer&);
std::string max_length_json(const MaxLengthAnswer&);

}  // namespace sluice

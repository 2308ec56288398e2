// One problem found in a schedule, as data. A verifier returns all of them and never throws.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"

namespace sluice {

struct Diagnostic {
    std::string rule;             // stable id, for instance "receive-without-send"; listed in docs/schedule-rules.md
    OpId op = kNoOp;              // the op to mark, or kNoOp
    BufferId buffer = kNoBuffer;  // the buffer concerned, or kNoBuffer
    std::string message;          // one line: the thing, what was got, what was expected
};

using Diagnostics = std::vector<Diagnostic>;

}  // namespace sluice

// The table that programs of nccl-tests print. Private to scenarios/.
#pragma once

#include "scenarios/nccl_tests_run.h"

namespace sluice {

std::vector<NcclTestsRun> parse_nccl_tests_table(std::string_view text, std::string_view origin,
                                                 std::optional<MessageKind> kind);

}  // namespace sluice

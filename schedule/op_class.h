// What kind of kernel this is, as traces and reports name it.
#pragma once

#include <string_view>

#include "schedule/schedule.h"

namespace sluice {

// "gemm", "attention_forward", "attention_backward", "norm", "adamw" ...
std::string_view op_class(const KernelShape&);

}  // namespace sluice

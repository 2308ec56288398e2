#include "base/error.h"

#include <fmt/format.h>

namespace sluice {

void fail_check(const char* file, int line, const char* condition, std::string_view message) {
    throw InternalError(
        fmt::format("internal error at {}:{}: {} ({}); please report it", file, line, message, condition));
}

}  // namespace sluice

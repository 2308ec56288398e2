#include "tools/sluice/parse_fault.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"
#include "schedule/describe.h"

namespace sluice {
namespace {

std::optional<std::uint64_t> whole_number(std::string_view text) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || at != end) return std::nullopt;
    return value;
}

}  // namespace

Fault parse_fault(std::string_view text, std::int64_t steps) {
    const auto refuse = [&] {
        throw InputError(
            fmt::format("sluice run: --fault: got '{}', expected throw:STEP:OP or stall:STEP:OP, the numbers of a step "
                        "and of an op",
                        text));
    };
    const std::size_t first = text.find(':'), second = text.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) refuse();
    const std::string_view kind = text.substr(0, first);
    if (kind != "throw" && kind != "stall") refuse();
    const auto step = whole_number(text.substr(first + 1, second - first - 1));
    const auto op = whole_number(text.substr(second + 1));
    if (!step || !op) refuse();
    if (*step < 1 || *step > static_cast<std::uint64_t>(steps))
        throw InputError(fmt::format(
            "sluice run: --fault: got step {} in '{}', expected one from 1 to the {} of --steps", *step, text, steps));
    if (*op >= static_cast<std::uint64_t>(index(kNoOp)))
        throw InputError(fmt::format("sluice run: --fault: got op {} in '{}': no schedule has so many", *op, text));
    return {kind == "throw" ? Fault::Kind::kThrow : Fault::Kind::kStall, *step, id_at<OpId>(*op)};
}

void expect_op_of(const Fault& fault, const Schedule& schedule, std::optional<Rank> alone) {
    if (index(fault.op) >= schedule.ops.size())
        throw InputError(fmt::format("sluice run: --fault: got op {}, expected one of the schedule's, 0 to {}",
                                     index(fault.op), schedule.ops.size() - 1));
    const Op& op = schedule.ops[index(fault.op)];
    if (alone && op.rank != *alone)
        throw InputError(fmt::format("sluice run: --fault: got {}, expected an op of rank {}, which runs alone",
                                     describe(op), index(*alone)));
}

}  // namespace sluice

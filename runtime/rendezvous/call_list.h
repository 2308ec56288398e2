// The call-order check: before the first step every rank says which calls it will make on every communicator, in the
// order in which its thread issues them, and all members must say the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "runtime/rank_program.h"
#include "schedule/schedule.h"

namespace sluice {

struct ListedCall {
    OpId op{};
    std::string what;  // describe_call(): what all partners say alike
};

// Of one rank on one communicator: a group, or the transfers from one rank to another.
struct CallList {
    std::string communicator;  // "group 2", "transfer from rank 0 to rank 1"
    std::uint32_t members = 0;
    Rank rank{};
    std::vector<ListedCall> calls;
};

// Of every rank that has a program, for every communicator it is a member of, with or without calls.
std::vector<CallList> call_lists(const Schedule& schedule, std::span<const RankProgram> programs);

// The first call that is not the same for all members, with both ranks' ops, or a member that is missing. `lists` are
// those of all ranks, in any order.
std::optional<std::string> call_difference(std::vector<CallList> lists);

std::vector<std::byte> encode(std::span<const CallList> lists);
std::vector<CallList> decode_call_lists(std::span<const std::byte> bytes);  // throws InputError

}  // namespace sluice

// Which ops start and end together (rule 3): a send with its receive, the members of a collective.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice {

inline constexpr std::uint32_t kNoMatch = 0xffffffffU;

class OpMatches {
public:
    // Never refuses: a partner that the schedule lacks is kNoOp, and whoever walks the schedule sees who waits for it.
    explicit OpMatches(const Schedule& schedule);

    std::size_t size() const { return first_.size() - 1; }

    // The match of an op, or kNoMatch for ops that need no partner.
    std::uint32_t of(OpId op) const { return of_op_[index(op)]; }

    // [send, receive], or one op per member of the group in the group's order; kNoOp where one is missing.
    std::span<const OpId> members(std::uint32_t match) const {
        return {members_.data() + first_[match], members_.data() + first_[match + 1]};
    }

private:
    std::uint32_t add(std::size_t partners);
    void place(std::uint32_t match, std::size_t slot, OpId op);

    std::vector<std::uint32_t> of_op_;
    std::vector<std::uint32_t> first_{0};  // of a match, in members_; one more than matches
    std::vector<OpId> members_;
};

}  // namespace sluice

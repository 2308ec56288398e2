#include "runtime/issue_order.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "schedule/describe.h"
#include "schedule/op_matches.h"

namespace sluice {
namespace {

constexpr std::uint32_t kNotHere = 0xffffffffU;

class IssueWalk {
public:
    IssueWalk(const Schedule& schedule, std::span<const RankProgram> programs)
        : schedule_(schedule), programs_(programs), matches_(schedule), at_(programs.size(), 0) {
        walker_of_.assign(schedule.ranks.size(), kNotHere);
        for (std::uint32_t w = 0; w < programs.size(); ++w) walker_of_[index(programs[w].rank)] = w;
    }

    void run() {
        std::vector<std::uint32_t> ready;
        for (std::uint32_t w = 0; w < programs_.size(); ++w) ready.push_back(w);
        while (!ready.empty()) {
            const std::uint32_t w = ready.back();
            ready.pop_back();
            go_on(w, ready);
        }
        for (std::uint32_t w = 0; w < programs_.size(); ++w)
            if (at_[w] < programs_[w].ops.size()) refuse();
    }

private:
    // Up to the next message whose partners are not there. Whoever comes last takes the others along.
    void go_on(std::uint32_t w, std::vector<std::uint32_t>& ready) {
        for (; at_[w] < programs_[w].ops.size(); ++at_[w]) {
            const std::uint32_t match = matches_.of(here(w));
            if (match == kNoMatch) continue;
            const auto members = matches_.members(match);
            for (const OpId member : members)
                if (const std::uint32_t other = walker(member); other != kNotHere && !stands_at(other, member)) return;
            for (const OpId member : members)
                if (const std::uint32_t other = walker(member); other != kNotHere && other != w)
                    ++at_[other], ready.push_back(other);
        }
    }

    OpId here(std::uint32_t w) const { return programs_[w].ops[at_[w]].op; }
    std::uint32_t walker(OpId op) const {
        return op == kNoOp ? kNotHere : walker_of_[index(schedule_.ops[index(op)].rank)];
    }
    bool stands_at(std::uint32_t w, OpId op) const { return at_[w] < programs_[w].ops.size() && here(w) == op; }

    [[noreturn]] void refuse() const {
        std::string stand;
        for (std::uint32_t w = 0; w < programs_.size(); ++w)
            if (at_[w] < programs_[w].ops.size())
                stand += fmt::format("{}rank {} at {}", stand.empty() ? "" : ", ", index(programs_[w].rank),
                                     describe(schedule_.ops[index(here(w))]));
        throw InputError(
            "the schedule cannot be issued: got ranks that list their messages in orders that do not fit together, "
            "expected those of one order of all ops: " +
            stand);
    }

    const Schedule& schedule_;
    std::span<const RankProgram> programs_;
    OpMatches matches_;
    std::vector<std::size_t> at_;           // by program: ops passed
    std::vector<std::uint32_t> walker_of_;  // by rank: position in programs_
};

}  // namespace

void expect_issuable(const Schedule& schedule, std::span<const RankProgram> programs) {
    IssueWalk(schedule, programs).run();
}

}  // namespace sluice

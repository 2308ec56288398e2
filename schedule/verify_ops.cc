// Layer two of verify(): is every op right by itself?
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "schedule/describe.h"
#include "schedule/verify_rules.h"

namespace sluice {
namespace {

std::string_view work_name(const Work& work) {
    constexpr std::array<std::string_view, 5> kNames{"compute work", "a copy", "a send", "a receive", "a collective"};
    return kNames[work.index()];
}

bool fits(LaneKind lane, const Work& work) {
    switch (lane) {
        case LaneKind::kCompute:
            return std::holds_alternative<Compute>(work);
        case LaneKind::kCopyOut:
        case LaneKind::kCopyIn:
            return std::holds_alternative<Copy>(work);
        case LaneKind::kCollective:
            return std::holds_alternative<Collective>(work);
        case LaneKind::kSend:
            return std::holds_alternative<Send>(work);
        case LaneKind::kReceive:
            return std::holds_alternative<Receive>(work);
    }
    return false;
}

// Where every block of every buffer ends, to sum block ranges in constant time.
class BlockBytes {
public:
    explicit BlockBytes(const Schedule& schedule) {
        for (const Buffer& buffer : schedule.buffers) {
            first_.push_back(ends_.size());
            Bytes end{};
            for (const Bytes block : buffer.blocks) ends_.push_back(end += block);
            if (buffer.blocks.empty()) ends_.push_back(buffer.bytes);
        }
    }

    Bytes of(const Access& access) const {
        const std::size_t first = first_[index(access.buffer)];
        const Bytes begin = access.first_block == 0 ? Bytes{} : ends_[first + access.first_block - 1];
        return ends_[first + access.last_block] - begin;
    }

private:
    std::vector<std::size_t> first_;  // by buffer: index into ends_
    std::vector<Bytes> ends_;
};

class OpCheck {
public:
    OpCheck(const Schedule& schedule, Diagnostics& found) : schedule_(schedule), found_(found), block_bytes_(schedule) {
        for (const Group& group : schedule.groups) {
            members_.push_back(group.members);
            std::sort(members_.back().begin(), members_.back().end());
        }
    }

    void run() {
        for (const Op& op : schedule_.ops) {
            check_lane(op);
            check_after(op);
            check_member(op);
            check_owner(op);
            if (std::holds_alternative<Copy>(op.work)) check_copy(op, std::get<Copy>(op.work));
        }
    }

private:
    void say(Rule rule, const Op& op, std::string message, BufferId buffer = kNoBuffer) {
        report(found_, rule, op.id, buffer, describe(op) + std::move(message));
    }

    void check_lane(const Op& op) {
        if (!fits(op.lane.kind, op.work))
            say(Rule::kLaneWork, op, fmt::format(" is {}, expected work of its lane", work_name(op.work)));
        const bool wants_peer = op.lane.kind == LaneKind::kSend || op.lane.kind == LaneKind::kReceive;
        if (!wants_peer && op.lane.peer != kNoRank)
            say(Rule::kLanePeer, op, fmt::format(" has a lane with peer {}, expected none", index(op.lane.peer)));
        if (wants_peer && (index(op.lane.peer) >= schedule_.ranks.size() || op.lane.peer == op.rank))
            say(Rule::kLanePeer, op,
                fmt::format(" has no rank to talk to, expected another rank below {}", schedule_.ranks.size()));
    }

    void check_after(const Op& op) {
        for (const OpId earlier : op.after) {
            const Op& other = schedule_.ops[index(earlier)];
            if (other.id == op.id)
                say(Rule::kAfterSelf, op, " is listed in its own after, expected other ops");
            else if (other.rank != op.rank)
                say(Rule::kAfterOtherRank, op,
                    fmt::format(" is after {}, expected ops of its own rank (what crosses ranks is a message)",
                                describe(other)));
        }
    }

    void check_member(const Op& op) {
        const auto* collective = std::get_if<Collective>(&op.work);
        if (collective == nullptr) return;
        const std::vector<Rank>& members = members_[index(collective->group)];
        if (!std::binary_search(members.begin(), members.end(), op.rank))
            say(Rule::kCollectiveMember, op,
                fmt::format(" runs {} on group {}, expected its rank among the {} members", name(collective->kind),
                            index(collective->group), members.size()));
    }

    void check_owner(const Op& op) {
        for (const Access& access : op.accesses) {
            const Buffer& buffer = schedule_.buffers[index(access.buffer)];
            if (buffer.rank != op.rank)
                say(Rule::kForeignBuffer, op,
                    fmt::format(" uses {}, expected buffers of its own rank", describe(buffer)), buffer.id);
        }
    }

    // copy_out reads device blocks and writes host blocks, copy_in the reverse, each at least as many bytes as it
    // copies.
    void check_copy(const Op& op, const Copy& copy) {
        if (!fits(op.lane.kind, op.work)) return;
        const Space from = op.lane.kind == LaneKind::kCopyOut ? Space::kDevice : Space::kHost;
        const Space to = from == Space::kDevice ? Space::kHost : Space::kDevice;
        Bytes read{}, written{};
        for (const Access& access : op.accesses) {
            const Buffer& buffer = schedule_.buffers[index(access.buffer)];
            if (access.mode == AccessMode::kRead && buffer.space == from)
                read = add(read, access);
            else if (access.mode == AccessMode::kWrite && buffer.space == to)
                written = add(written, access);
            else
                say(Rule::kCopyBuffers, op,
                    fmt::format(" has {} access to {}, expected to read {} and write {} buffers only",
                                name(access.mode), describe(buffer), name(from), name(to)),
                    buffer.id);
        }
        check_copy_bytes(op, copy, read, "reads", from);
        check_copy_bytes(op, copy, written, "writes", to);
    }

    // Stops counting at a bound far above any copy that can be right: repeated accesses must not overflow the sum.
    Bytes add(Bytes sum, const Access& access) const { return std::min(sum + block_bytes_.of(access), kMaxTotalBytes); }

    void check_copy_bytes(const Op& op, const Copy& copy, Bytes got, std::string_view verb, Space space) {
        if (got >= copy.bytes) return;
        say(Rule::kCopyBuffers, op,
            fmt::format(" {} {} B of {} buffers, expected at least the {} B it copies", verb, got.value, name(space),
                        copy.bytes.value));
    }

    const Schedule& schedule_;
    Diagnostics& found_;
    BlockBytes block_bytes_;
    std::vector<std::vector<Rank>> members_;  // by group, sorted
};

}  // namespace

void check_ops(const Schedule& schedule, Diagnostics& found) { OpCheck(schedule, found).run(); }

}  // namespace sluice

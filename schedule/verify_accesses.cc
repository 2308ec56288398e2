// Races: are conflicting accesses to a block ordered, and was what is read written before?
//
// Ops are visited in a topological order, so whatever conflicts with an op and was visited before it must have ended
// before it starts. Per block and lane only the last reader and the last writer matter, since a clock that covers a
// place covers all places before it; an access to a range of blocks is a few passes over contiguous integers.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/describe.h"
#include "schedule/verify_rules.h"

namespace sluice {
namespace {

using Place = std::uint32_t;  // 1-based, 0: none

bool writes(AccessMode mode) { return mode != AccessMode::kRead; }
bool reads(AccessMode mode) { return mode != AccessMode::kWrite; }

// Index of the first value above `limit`, or values.size(). The loop without an exit is the one compilers vectorise,
// and nearly always the only one that runs.
std::size_t find_above(std::span<const Place> values, Place limit) {
    Place greatest = 0;
    for (const Place value : values) greatest = std::max(greatest, value);
    if (greatest <= limit) return values.size();
    return static_cast<std::size_t>(
        std::find_if(values.begin(), values.end(), [=](Place value) { return value > limit; }) - values.begin());
}

class AccessCheck {
public:
    AccessCheck(const Schedule& schedule, const HappensBefore& before, const BufferUses& uses, Diagnostics& found)
        : schedule_(schedule), before_(before), uses_(uses), found_(found) {
        std::uint64_t blocks = 0, cells = 0;
        for (const Buffer& buffer : schedule.buffers) {
            first_written_.push_back(blocks);
            blocks += buffer.block_count();
            for (std::size_t use = 0; use < uses.of(buffer.id).size(); ++use) {
                first_cell_.push_back(cells);
                cells += buffer.block_count();
            }
        }
        written_.assign(blocks, false);
        last_read_.assign(cells, 0);
        last_write_.assign(cells, 0);
    }

    void run(std::span<const OpId> order) {
        for (const OpId id : order) {
            const Op& op = schedule_.ops[index(id)];
            // A write of the op itself comes before its reads: its first kernels make what the later ones use.
            for (const Access& access : op.accesses)
                if (access.mode == AccessMode::kWrite) mark_written(access);
            for (const Access& access : op.accesses) check(op, access);
            for (const Access& access : op.accesses) record(op, access);
        }
        if (unwritten_reads_.empty()) return;
        const std::vector<Place> first_write = first_writes();
        for (const UnwrittenRead& read : unwritten_reads_) report_unless_raced(read, first_write);
    }

private:
    struct UnwrittenRead {
        OpId op;
        Access access;
    };

    // The cells of one (buffer, lane) pair in `cells`, for the blocks of an access.
    template <class Cells>
    static auto range(Cells& cells, std::uint64_t first, const Access& access) {
        return std::span(cells).subspan(first + access.first_block, access.last_block - access.first_block + 1);
    }

    void check(const Op& op, const Access& access) {
        const auto ended = before_.ended(op.id);
        const auto lanes = uses_.of(access.buffer);
        for (std::size_t u = 0; u < lanes.size(); ++u) {
            const std::uint32_t lane = lanes[u].lane;
            if (lane == before_.lanes().lane(op.id)) continue;
            const std::uint64_t cell = first_cell_[uses_.first_slot(access.buffer) + u];
            if (writes(access.mode) &&
                report_first_above(op, access, lane, range(last_read_, cell, access), ended[lane], false))
                return;
            if (report_first_above(op, access, lane, range(last_write_, cell, access), ended[lane], true)) return;
        }
        if (reads(access.mode) && !schedule_.buffers[index(access.buffer)].persistent && first_unwritten(access))
            unwritten_reads_.push_back({op.id, access});
    }

    std::uint64_t own_cell(const Op& op, const Access& access) const {
        const auto lanes = uses_.of(access.buffer);
        const auto own = std::find_if(lanes.begin(), lanes.end(),
                                      [&](const LaneUse& use) { return use.lane == before_.lanes().lane(op.id); });
        return first_cell_[uses_.first_slot(access.buffer) + static_cast<std::size_t>(own - lanes.begin())];
    }

    void record(const Op& op, const Access& access) {
        const std::uint64_t cell = own_cell(op, access);
        const Place place = before_.lanes().place(op.id);
        if (reads(access.mode)) std::ranges::fill(range(last_read_, cell, access), place);
        if (!writes(access.mode)) return;
        std::ranges::fill(range(last_write_, cell, access), place);
        mark_written(access);
    }

    void mark_written(const Access& access) {
        std::ranges::fill(range(written_, first_written_[index(access.buffer)], access), char{1});
    }

    bool report_first_above(const Op& op, const Access& access, std::uint32_t lane, std::span<const Place> places,
                            Place ended, bool other_writes) {
        const std::size_t at = find_above(places, ended);
        if (at == places.size()) return false;
        const OpId other = before_.lanes().ops(op.rank, lane)[places[at] - 1];
        report_race(op, access, access.first_block + static_cast<std::uint32_t>(at), schedule_.ops[index(other)],
                    other_writes);
        return true;
    }

    // `op` and `other` are not ordered. Hazards of offloading have names of their own; their op is the one that has to
    // wait.
    void report_race(const Op& op, const Access& access, std::uint32_t block, const Op& other, bool other_writes) {
        const Buffer& buffer = schedule_.buffers[index(access.buffer)];
        const auto race = [&](Rule rule, const Op& waits, std::string_view how, const Op& writer,
                              std::string_view doing) {
            report(found_, rule, waits.id, buffer.id,
                   fmt::format(
                       "{} {} block {} of {} while {} may be {} it, expected op {} after op {} by lane order or after",
                       describe(waits), how, block, describe(buffer), describe(writer), doing, index(waits.id),
                       index(writer.id)));
        };
        const bool op_reads = reads(access.mode), op_writes = writes(access.mode);
        const auto copies = [&](const Op& reader, const Op& writer, LaneKind reader_lane, LaneKind writer_lane,
                                Space space) {
            return buffer.space == space && reader.lane.kind == reader_lane && writer.lane.kind == writer_lane;
        };
        if (op_reads && other_writes) {
            if (copies(op, other, LaneKind::kCopyIn, LaneKind::kCopyOut, Space::kHost))
                return race(Rule::kReloadBeforeOffload, op, "reloads", other, "offloading");
            if (copies(op, other, LaneKind::kCompute, LaneKind::kCopyIn, Space::kDevice))
                return race(Rule::kBackwardBeforeReload, op, "reads", other, "reloading");
        }
        if (op_writes && !other_writes) {
            if (copies(other, op, LaneKind::kCopyIn, LaneKind::kCopyOut, Space::kHost))
                return race(Rule::kReloadBeforeOffload, other, "reloads", op, "offloading");
            if (copies(other, op, LaneKind::kCompute, LaneKind::kCopyIn, Space::kDevice))
                return race(Rule::kBackwardBeforeReload, other, "reads", op, "reloading");
        }
        race(Rule::kUnorderedAccess, op, op_writes ? "writes" : "reads", other, other_writes ? "writing" : "reading");
    }

    std::optional<std::uint32_t> first_unwritten(const Access& access) const {
        const auto written = range(written_, first_written_[index(access.buffer)], access);
        const auto gap = std::find(written.begin(), written.end(), char{0});
        if (gap == written.end()) return std::nullopt;
        return access.first_block + static_cast<std::uint32_t>(gap - written.begin());
    }

    // Like last_write_, the first writer of every block on every lane.
    std::vector<Place> first_writes() const {
        std::vector<Place> result(last_write_.size(), 0);
        for (const Op& op : schedule_.ops)
            for (const Access& access : op.accesses)
                if (writes(access.mode))
                    for (Place& first : range(result, own_cell(op, access), access))
                        if (first == 0) first = before_.lanes().place(op.id);  // listed order is lane order
        return result;
    }

    // A writer that is not ordered with the read has been reported as a race; one mistake, one diagnostic.
    void report_unless_raced(const UnwrittenRead& read, const std::vector<Place>& first_write) {
        for (std::uint32_t block = read.access.first_block; block <= read.access.last_block; ++block) {
            if (may_be_written_before(read, block, first_write)) continue;
            report(found_, Rule::kReadBeforeWrite, read.op, read.access.buffer,
                   fmt::format("{} {} block {} of {}, expected an op before it that writes the block",
                               describe(schedule_.ops[index(read.op)]),
                               read.access.mode == AccessMode::kRead ? "reads" : "accumulates into", block,
                               describe(schedule_.buffers[index(read.access.buffer)])));
            return;
        }
    }

    bool may_be_written_before(const UnwrittenRead& read, std::uint32_t block,
                               const std::vector<Place>& first_write) const {
        const Rank rank = schedule_.ops[index(read.op)].rank;
        const auto lanes = uses_.of(read.access.buffer);
        for (std::size_t u = 0; u < lanes.size(); ++u) {
            const Place place = first_write[first_cell_[uses_.first_slot(read.access.buffer) + u] + block];
            if (place == 0) continue;
            const OpId writer = before_.lanes().ops(rank, lanes[u].lane)[place - 1];
            if (writer != read.op && !before_(read.op, writer)) return true;
        }
        return false;
    }

    const Schedule& schedule_;
    const HappensBefore& before_;
    const BufferUses& uses_;
    Diagnostics& found_;
    std::vector<std::uint64_t> first_written_;  // by buffer: index into written_
    std::vector<char> written_;                 // by block of every buffer: by an op visited so far
    std::vector<std::uint64_t> first_cell_;     // by slot of uses_: index into the two below
    std::vector<Place> last_read_, last_write_;
    std::vector<UnwrittenRead> unwritten_reads_;
};

}  // namespace

void check_accesses(const Schedule& schedule, const HappensBefore& before, std::span<const OpId> order,
                    const BufferUses& uses, Diagnostics& found) {
    AccessCheck(schedule, before, uses, found).run(order);
}

}  // namespace sluice

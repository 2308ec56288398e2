#include <fmt/format.h>
#include <google/protobuf/arena.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "schedule/schedule.pb.h"
#include "schedule/schedule_file.h"
#include "schedule/schedule_format.h"

namespace sluice {
namespace {

namespace pb = schedule_proto;

// What is wrong inside a record; the caller adds the place.
struct RecordError {
    std::string message;
};

// Enums of the file are ours plus one; 0 is an absent one. name() knows which values exist.
template <class Enum>
Enum loaded(int value, std::string_view what) {
    if (value < 1 || value > 255 || name(static_cast<Enum>(value - 1)) == "?") {
        throw RecordError{fmt::format("unknown {}, got {}, expected a value of schedule.proto", what, value)};
    }
    return static_cast<Enum>(value - 1);
}

// ---- Work
// ------------------------------------------------------------------------------------------------------------

Gemm loaded(const pb::Gemm& g) { return Gemm{g.m(), g.n(), g.k()}; }

Attention loaded(const pb::Attention& a) {
    return Attention{
        loaded<Pass>(a.pass(), "pass"), a.causal(), a.queries(), a.keys(), a.heads(), a.kv_heads(), a.head_dim()};
}

Pointwise loaded(const pb::Pointwise& p) {
    return Pointwise{loaded<PointwiseKind>(p.kind(), "pointwise kind"), Bytes{p.traffic_bytes()}};
}

Kernel loaded(const pb::Kernel& k) {
    const std::uint32_t count = k.has_count() ? k.count() : 1;
    switch (k.shape_case()) {
        case pb::Kernel::kGemm:
            return Kernel{loaded(k.gemm()), count};
        case pb::Kernel::kAttention:
            return Kernel{loaded(k.attention()), count};
        case pb::Kernel::kPointwise:
            return Kernel{loaded(k.pointwise()), count};
        case pb::Kernel::SHAPE_NOT_SET:
            break;
    }
    throw RecordError{"kernel without a shape, expected gemm, attention or pointwise"};
}

Compute loaded(const pb::Compute& c) {
    Compute compute;
    compute.kernels.reserve(static_cast<std::size_t>(c.kernels_size()));
    for (const pb::Kernel& kernel : c.kernels()) compute.kernels.push_back(loaded(kernel));
    return compute;
}

Collective loaded(const pb::Collective& c) {
    return Collective{loaded<CollectiveKind>(c.kind(), "collective kind"), GroupId{c.group()}, Bytes{c.bytes()},
                      c.has_calls() ? c.calls() : 1, c.root()};
}

Work loaded_work(const pb::Op& op) {
    switch (op.work_case()) {
        case pb::Op::kCompute:
            return loaded(op.compute());
        case pb::Op::kCopy:
            return Copy{Bytes{op.copy().bytes()}};
        case pb::Op::kSend:
            return Send{Bytes{op.send().bytes()}};
        case pb::Op::kReceive:
            return Receive{Bytes{op.receive().bytes()}};
        case pb::Op::kCollective:
            return loaded(op.collective());
        case pb::Op::WORK_NOT_SET:
            break;
    }
    throw RecordError{"op without work, expected compute, copy, send, receive or collective"};
}

// ---- Records
// ---------------------------------------------------------------------------------------------------------

Tag loaded(const pb::Tag& t) {
    Tag tag;
    tag.phase = loaded<Phase>(t.phase(), "phase");
    tag.sequence = t.sequence();
    if (t.has_stage()) tag.stage = t.stage();
    if (t.has_virtual_stage()) tag.virtual_stage = t.virtual_stage();
    if (t.has_layer()) tag.layer = t.layer();
    if (t.has_subsequence()) tag.subsequence = t.subsequence();
    if (t.has_part()) tag.part = t.part();
    if (t.function() != pb::FUNCTION_UNSPECIFIED) tag.function = loaded<Function>(t.function(), "function");
    return tag;
}

Access loaded(const pb::Access& a) {
    return Access{BufferId{a.buffer()}, a.first_block(), a.last_block(), loaded<AccessMode>(a.mode(), "access mode")};
}

Op loaded(const pb::Op& from, OpId id) {
    Op op;
    op.id = id;
    op.rank = Rank{from.rank()};
    op.lane = Lane{loaded<LaneKind>(from.lane(), "lane"), from.has_peer() ? Rank{from.peer()} : kNoRank};
    op.work = loaded_work(from);
    op.after.reserve(static_cast<std::size_t>(from.after_size()));
    for (const std::uint32_t before : from.after()) op.after.push_back(OpId{before});
    op.accesses.reserve(static_cast<std::size_t>(from.accesses_size()));
    for (const pb::Access& access : from.accesses()) op.accesses.push_back(loaded(access));
    if (from.has_tag()) op.tag = loaded(from.tag());
    return op;
}

Buffer loaded(const pb::Buffer& from, BufferId id) {
    Buffer b;
    b.id = id;
    b.rank = Rank{from.rank()};
    b.space = loaded<Space>(from.space(), "space");
    b.kind = loaded<BufferKind>(from.kind(), "buffer kind");
    b.persistent = from.persistent();
    b.bytes = Bytes{from.bytes()};
    b.blocks.reserve(static_cast<std::size_t>(from.block_bytes_size()));
    for (const std::int64_t block : from.block_bytes()) b.blocks.push_back(Bytes{block});
    if (from.has_offset_bytes()) b.offset = Bytes{from.offset_bytes()};
    b.tensors.reserve(static_cast<std::size_t>(from.tensors_size()));
    for (const pb::SavedTensor& saved : from.tensors())
        b.tensors.push_back({loaded<Tensor>(saved.tensor(), "tensor"), Bytes{saved.bytes()}});
    return b;
}

Group loaded(const pb::Group& from, GroupId id) {
    Group group;
    group.id = id;
    group.members.reserve(static_cast<std::size_t>(from.members_size()));
    for (const std::uint32_t member : from.members()) group.members.push_back(Rank{member});
    return group;
}

template <class Id, class T>
Id next_id(const std::vector<T>& things, std::string_view what) {
    if (things.size() >= std::numeric_limits<std::uint32_t>::max()) {
        throw RecordError{fmt::format("more {}s than ids", what)};
    }
    return id_at<Id>(things.size());
}

void check_count(std::string_view what, std::uint64_t counted, std::size_t seen) {
    if (counted == seen) return;
    throw RecordError{
        fmt::format("number of {}s, got {} in the end record, expected the {} read", what, counted, seen)};
}

void check_end(const pb::End& end, const Schedule& schedule) {
    check_count("host", end.hosts(), schedule.hosts.size());
    check_count("rank", end.ranks(), schedule.ranks.size());
    check_count("group", end.groups(), schedule.groups.size());
    check_count("buffer", end.buffers(), schedule.buffers.size());
    check_count("op", end.ops(), schedule.ops.size());
}

// Adds what a record holds to the schedule. True for the end record.
bool add(const pb::Record& record, Schedule& to) {
    switch (record.content_case()) {
        case pb::Record::kHost:
            to.hosts.push_back(Host{Bytes{record.host().capacity_bytes()}});
            return false;
        case pb::Record::kRank:
            to.ranks.push_back(RankPlace{HostId{record.rank().host()}, Bytes{record.rank().device_capacity_bytes()}});
            return false;
        case pb::Record::kGroup:
            to.groups.push_back(loaded(record.group(), next_id<GroupId>(to.groups, "group")));
            return false;
        case pb::Record::kBuffer:
            to.buffers.push_back(loaded(record.buffer(), next_id<BufferId>(to.buffers, "buffer")));
            return false;
        case pb::Record::kOp:
            to.ops.push_back(loaded(record.op(), next_id<OpId>(to.ops, "op")));
            return false;
        case pb::Record::kEnd:
            check_end(record.end(), to);
            return true;
        case pb::Record::CONTENT_NOT_SET:
            break;
    }
    throw RecordError{"empty record, expected host, rank, group, buffer, op or end"};
}

// Cuts the file into records.
class RecordReader {
public:
    RecordReader(std::string_view bytes, std::string_view origin) : bytes_(bytes), origin_(origin) {}

    [[noreturn]] void fail(std::string_view message) const {
        throw InputError(fmt::format("{}{}byte {}: {}", origin_, origin_.empty() ? "" : ": ", begin_, message));
    }

    void magic() {
        if (!bytes_.starts_with(kScheduleMagic))
            fail("not a binary schedule, expected it to begin with \"SLSCHED\\n\"");
        next_ = kScheduleMagic.size();
    }

    // The bytes of the next record; messages name where it begins.
    std::string_view next() {
        begin_ = next_;
        if (next_ == bytes_.size()) fail("file ends without an end record: it is cut short");
        const std::uint64_t size = varint();
        if (size > static_cast<std::uint64_t>(kMaxScheduleRecord.value)) {
            fail(fmt::format("record too long, got {} bytes, expected at most {}", size, kMaxScheduleRecord.value));
        }
        if (size > bytes_.size() - next_) {
            fail(fmt::format("file is cut short, got {} bytes of a record, expected {}", bytes_.size() - next_, size));
        }
        const std::string_view record = bytes_.substr(next_, size);
        next_ += record.size();
        return record;
    }

    void expect_end() {
        begin_ = next_;
        if (next_ != bytes_.size()) fail(fmt::format("{} bytes after the end record", bytes_.size() - next_));
    }

private:
    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 35; shift += 7) {
            if (next_ == bytes_.size()) fail("file is cut short inside a record's length");
            const auto byte = static_cast<unsigned char>(bytes_[next_++]);
            value |= std::uint64_t{byte & 0x7fU} << shift;
            if (byte < 0x80) return value;
        }
        fail("bad record length, expected a varint of at most 5 bytes");
    }

    std::string_view bytes_;
    std::string_view origin_;
    std::size_t begin_ = 0;
    std::size_t next_ = 0;
};

}  // namespace

Schedule parse_binary_schedule(std::string_view bytes, std::string_view origin) {
    RecordReader in(bytes, origin);
    in.magic();
    Schedule schedule;
    std::vector<char> block(std::size_t{64} << 10);  // holds any usual record, so that none of them allocates
    google::protobuf::ArenaOptions options;
    options.initial_block = block.data();
    options.initial_block_size = block.size();
    google::protobuf::Arena arena(options);  // emptied after every record
    for (bool at_end = false; !at_end;) {
        const std::string_view piece = in.next();
        auto& record = *google::protobuf::Arena::CreateMessage<pb::Record>(&arena);
        if (!record.ParseFromArray(piece.data(), static_cast<int>(piece.size()))) in.fail("malformed record");
        try {
            at_end = add(record, schedule);
        } catch (const RecordError& error) {
            in.fail(error.message);
        }
        arena.Reset();
    }
    in.expect_end();
    return schedule;
}

}  // namespace sluice

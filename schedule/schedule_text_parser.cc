#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "schedule/line_cursor.h"
#include "schedule/schedule_text.h"

namespace sluice {
namespace {

// Longer lines are refused: far above anything a schedule holds, low enough that a hostile file cannot hide in one
// line.
constexpr std::size_t kMaxLine = std::size_t{1} << 20;

// All spellings of an enum, in the order of its values: name() answers "?" past the last one.
template <class Enum>
std::span<const std::string_view> spellings() {
    static const std::vector<std::string_view> all = [] {
        std::vector<std::string_view> names;
        for (std::uint8_t i = 0; name(static_cast<Enum>(i)) != "?"; ++i) names.push_back(name(static_cast<Enum>(i)));
        return names;
    }();
    return all;
}

// `words`, then the spellings of an enum: a choice between both.
template <class Enum>
std::vector<std::string_view> words_and(std::vector<std::string_view> words) {
    const auto more = spellings<Enum>();
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

template <class Enum>
Enum named(LineCursor& in, std::string_view what) {
    return static_cast<Enum>(in.choice(what, spellings<Enum>()));
}

// ---- Work
// ------------------------------------------------------------------------------------------------------------

Gemm gemm(LineCursor& in) {
    Gemm g;
    g.m = in.int64("gemm size m");
    g.n = in.int64("gemm size n");
    g.k = in.int64("gemm size k");
    return g;
}

Attention attention(LineCursor& in) {
    static constexpr std::array<std::string_view, 2> kMasks{"full", "causal"};
    Attention a;
    a.pass = named<Pass>(in, "pass");
    a.causal = in.choice("mask", kMasks) == 1;
    in.expect_word("q");
    a.queries = in.int64("query count");
    in.expect_word("k");
    a.keys = in.int64("key count");
    in.expect_word("heads");
    a.heads = in.int64("head count");
    in.expect('/');
    a.kv_heads = in.int64("K/V head count");
    in.expect_word("d");
    a.head_dim = in.int64("head size");
    return a;
}

std::uint32_t count(LineCursor& in) { return in.accept('*') ? in.uint32("count") : 1; }

Kernel kernel(LineCursor& in) {
    static const auto kinds = words_and<PointwiseKind>({"gemm", "attention"});
    const std::size_t kind = in.choice("kernel", kinds);
    in.expect('(');
    Kernel result;
    if (kind == 0) {
        result.shape = gemm(in);
    } else if (kind == 1) {
        result.shape = attention(in);
    } else {
        result.shape = Pointwise{static_cast<PointwiseKind>(kind - 2), in.bytes("traffic")};
    }
    in.expect(')');
    result.count = count(in);
    return result;
}

Compute compute(LineCursor& in) {
    Compute result;
    while (!in.at_end() && in.peek() != '|') result.kernels.push_back(kernel(in));
    result.kernels.shrink_to_fit();  // schedules are large: no slack
    return result;
}

Collective collective(LineCursor& in) {
    Collective c;
    c.kind = named<CollectiveKind>(in, "collective");
    c.group = in.id<GroupId>('g', "group");
    c.bytes = in.bytes("size");
    c.calls = count(in);
    if (in.accept_word("root")) c.root = in.uint32("root");
    return c;
}

Rank optional_rank(LineCursor& in) { return in.peek() == 'r' ? in.id<Rank>('r', "peer") : kNoRank; }

// The work and the lane it belongs on; a bare "copy" belongs on none, so that its line must name one.
enum class Verb : std::uint8_t { kCompute, kCopyOut, kCopyIn, kCollective, kSend, kReceive, kCopy };
Verb work(LineCursor& in, Op& op) {
    static const auto verbs = [] {
        auto names = words_and<LaneKind>({});
        names.push_back("copy");
        return names;
    }();
    const auto verb = static_cast<Verb>(in.choice("work", verbs));
    if (verb != Verb::kCopy) op.lane.kind = static_cast<LaneKind>(verb);
    switch (verb) {
        case Verb::kCompute:
            op.work = compute(in);
            break;
        case Verb::kCopyOut:
        case Verb::kCopyIn:
        case Verb::kCopy:
            op.work = Copy{in.bytes("size")};
            break;
        case Verb::kCollective:
            op.work = collective(in);
            break;
        case Verb::kSend:
            op.lane.peer = optional_rank(in), op.work = Send{in.bytes("size")};
            break;
        case Verb::kReceive:
            op.lane.peer = optional_rank(in), op.work = Receive{in.bytes("size")};
            break;
    }
    return verb;
}

// ---- The sections of an op
// -------------------------------------------------------------------------------------------

Tag tag(LineCursor& in, Phase phase) {
    static constexpr std::array<std::string_view, 7> kKeys{"seq", "stage", "virtual", "layer",
                                                           "sub", "part",  "function"};
    Tag t;
    t.phase = phase;
    const std::array<std::int32_t*, 6> fields{&t.sequence, &t.stage,       &t.virtual_stage,
                                              &t.layer,    &t.subsequence, &t.part};
    while (!in.at_end() && in.peek() != '|') {
        const std::size_t key = in.choice("tag", kKeys);
        if (key == fields.size())
            t.function = named<Function>(in, "function");
        else
            *fields[key] = in.int32(kKeys[key]);
    }
    return t;
}

// Scratch space is reused from line to line, so that each op's vectors are allocated once and exactly.
struct OpParser {
    const std::vector<Buffer>& buffers;  // declared so far
    std::vector<OpId> after;
    std::vector<Access> accesses;

    Op parse(LineCursor& in, OpId id);

private:
    Access access(LineCursor& in, AccessMode mode) const;
    void access_section(LineCursor& in, AccessMode mode);
    void section(LineCursor& in, Op& op, unsigned& seen);
};

// "b0[2]", "b0[0..3]", or "b0" for all blocks of a buffer declared above.
Access OpParser::access(LineCursor& in, AccessMode mode) const {
    const std::size_t begin = in.mark();
    Access a;
    a.mode = mode;
    a.buffer = in.id<BufferId>('b', "buffer");
    if (in.accept('[')) {
        a.first_block = a.last_block = in.uint32("block");
        if (in.accept('.')) {
            in.expect('.');
            a.last_block = in.uint32("block");
        }
        in.expect(']');
        return a;
    }
    if (index(a.buffer) >= buffers.size()) {
        in.fail(begin, "buffer without blocks is not declared above", "its 'buffer' line above, or blocks like b0[0]");
    }
    a.last_block = buffers[index(a.buffer)].block_count() - 1;
    return a;
}

void OpParser::access_section(LineCursor& in, AccessMode mode) {
    do {
        accesses.push_back(access(in, mode));
        if (in.at_end() || in.peek() == '|') return;
        if (in.peek() != 'b') mode = named<AccessMode>(in, "access mode");
    } while (true);
}

void OpParser::section(LineCursor& in, Op& op, unsigned& seen) {
    static const auto names = [] {
        auto all = words_and<AccessMode>({"after", "lane"});
        for (const std::string_view phase : spellings<Phase>()) all.push_back(phase);
        return all;
    }();
    const std::size_t begin = in.mark();
    const std::size_t modes = spellings<AccessMode>().size();
    const std::size_t chosen = in.choice("section", names);
    const unsigned kind = chosen < 2 ? static_cast<unsigned>(chosen) : chosen < 2 + modes ? 2 : 3;
    if ((seen & (1U << kind)) != 0) in.fail(begin, "second section of its kind", "one of each at most");
    seen |= 1U << kind;
    switch (kind) {
        case 0:
            do after.push_back(OpId{in.uint32("op")});
            while (!in.at_end() && in.peek() != '|');
            break;
        case 1:
            op.lane.kind = named<LaneKind>(in, "lane");
            op.lane.peer = optional_rank(in);
            break;
        case 2:
            access_section(in, static_cast<AccessMode>(chosen - 2));
            break;
        default:
            op.tag = tag(in, static_cast<Phase>(chosen - 2 - modes));
    }
}

Op OpParser::parse(LineCursor& in, OpId id) {
    Op op;
    op.id = id;
    op.rank = in.id<Rank>('r', "rank");
    after.clear();
    accesses.clear();
    const std::size_t begin = in.mark();
    const Verb verb = work(in, op);
    unsigned seen = 0;
    while (in.accept('|')) section(in, op, seen);
    in.expect_end("'|' or end of line");
    if (verb == Verb::kCopy && (seen & 2U) == 0) in.fail(begin, "copy without a direction", "copy_out or copy_in");
    op.after.assign(after.begin(), after.end());
    op.accesses.assign(accesses.begin(), accesses.end());
    return op;
}

// ---- The other lines
// -------------------------------------------------------------------------------------------------

void block_sizes(LineCursor& in, Buffer& b) {
    do b.blocks.push_back(in.bytes("block size"));
    while (!in.at_end() && in.peek() != 't');  // "tensors" may follow
    b.blocks.shrink_to_fit();
}

void saved_tensors(LineCursor& in, Buffer& b) {
    do {
        const auto tensor = named<Tensor>(in, "tensor");
        b.tensors.push_back({tensor, in.bytes("tensor size")});
    } while (!in.at_end());
    b.tensors.shrink_to_fit();
}

Buffer buffer(LineCursor& in, BufferId id) {
    Buffer b;
    b.id = id;
    b.rank = in.id<Rank>('r', "rank");
    b.space = named<Space>(in, "space");
    b.kind = named<BufferKind>(in, "buffer kind");
    b.bytes = in.bytes("size");
    if (in.accept('@')) b.offset = in.bytes("offset");
    static constexpr std::array<std::string_view, 3> kProperties{"persistent", "blocks", "tensors"};
    std::size_t least = 0;  // properties come in order, each once
    while (!in.at_end()) {
        const std::size_t property = least + in.choice("buffer property", std::span(kProperties).subspan(least));
        least = property + 1;
        if (property == 0) b.persistent = true;
        if (property == 1) block_sizes(in, b);
        if (property == 2) saved_tensors(in, b);
        if (least == kProperties.size()) break;
    }
    return b;
}

Group group(LineCursor& in, GroupId id) {
    Group g;
    g.id = id;
    while (!in.at_end()) g.members.push_back(in.id<Rank>('r', "rank"));
    return g;
}

RankPlace rank_place(LineCursor& in) {
    RankPlace place;
    place.host = in.id<HostId>('h', "host");
    place.device_capacity = in.bytes("device capacity");
    return place;
}

// The id at the start of a line, which must be the next one of its kind.
template <class Id>
Id next_id(LineCursor& in, char prefix, std::string_view what, std::size_t next) {
    const std::size_t begin = in.mark();
    const Id id = prefix != '\0' ? in.id<Id>(prefix, what) : Id{in.uint32(what)};
    if (index(id) != next) {
        const std::string letter = prefix != '\0' ? std::string(1, prefix) : std::string();
        in.fail(begin, fmt::format("{} lines are numbered from 0 in order", what), fmt::format("{}{}", letter, next));
    }
    return id;
}

struct ScheduleParser {
    Schedule schedule;
    OpParser ops{schedule.buffers, {}, {}};
    bool ended = false;  // the 'end' line is read

    void line(LineCursor& in);
};

void ScheduleParser::line(LineCursor& in) {
    static constexpr std::array<std::string_view, 6> kKinds{"op", "buffer", "group", "rank", "host", "end"};
    if (ended) in.fail(in.mark(), "text after the 'end' line", "comments only");
    switch (in.choice("line", kKinds)) {
        case 0:
            schedule.ops.push_back(ops.parse(in, next_id<OpId>(in, '\0', "op", schedule.ops.size())));
            break;
        case 1: {
            const auto id = next_id<BufferId>(in, 'b', "buffer", schedule.buffers.size());
            schedule.buffers.push_back(buffer(in, id));
            break;
        }
        case 2: {
            const auto id = next_id<GroupId>(in, 'g', "group", schedule.groups.size());
            schedule.groups.push_back(group(in, id));
            break;
        }
        case 3: {
            next_id<Rank>(in, 'r', "rank", schedule.ranks.size());
            schedule.ranks.push_back(rank_place(in));
            break;
        }
        case 4: {
            next_id<HostId>(in, 'h', "host", schedule.hosts.size());
            schedule.hosts.push_back(Host{in.bytes("host capacity")});
            break;
        }
        default:
            ended = true;
    }
    in.expect_end();
}

void header(LineCursor& in) {
    const std::size_t begin = in.mark();
    if (!in.accept_word("sluice-schedule")) in.fail(begin, "not a schedule", "'sluice-schedule 1' on the first line");
    const std::size_t version = in.mark();
    if (in.uint32("version") != 1) in.fail(version, "unknown version", "1");
    in.expect_end();
}

}  // namespace

Schedule parse_schedule(std::string_view text, std::string_view origin) {
    ScheduleParser parser;
    bool seen_header = false;
    std::size_t number = 0;
    while (!text.empty() || number == 0) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        LineCursor in(line, origin, ++number);
        if (line.size() > kMaxLine) in.fail(kMaxLine, "line too long", fmt::format("at most {} bytes", kMaxLine));
        if (in.at_end()) {
            in.expect_end();
            if (!text.empty() || seen_header) continue;
        }
        if (seen_header) {
            parser.line(in);
        } else {
            header(in);
            seen_header = true;
        }
    }
    // Without this a file cut between two lines, or inside a number of its last line, would pass as a smaller schedule.
    if (!parser.ended)
        throw InputError(
            fmt::format("{}{}{}:1: the file is cut short, got end of file, expected 'end' on the last line", origin,
                        origin.empty() ? "" : ":", number + 1));
    return std::move(parser.schedule);
}

}  // namespace sluice

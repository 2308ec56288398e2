#include <fmt/format.h>

#include <fstream>
#include <istream>
#include <streambuf>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "traces/trace.pb.h"
#include "traces/trace_check.h"
#include "traces/trace_file.h"
#include "traces/trace_format.h"

namespace sluice {
namespace {

// Pipes and the like have no size to check counts against; they are read whole first, up to this much.
constexpr Bytes kMaxUnsizedFile{std::int64_t{8} << 30};

// Takes chunks off a stream of known size and knows where it is, for messages.
class ChunkReader {
public:
    ChunkReader(std::istream& in, std::uint64_t size, std::string_view origin)
        : in_(in), size_(size), origin_(origin) {}

    std::uint64_t left() const { return size_ - at_; }

    // The place is that of the chunk (or the magic) being read.
    [[noreturn]] void fail(std::string_view problem) const {
        throw InputError(fmt::format("{}: byte {}: {}", origin_, chunk_at_, problem));
    }

    void read_magic() {
        std::string magic(kTraceMagic.size(), '\0');
        if (left() < magic.size()) fail("too short for a Sluice trace");
        take(magic);
        if (magic != kTraceMagic) fail("not a Sluice trace: expected it to begin with \"SLTRACE\"");
    }

    // False at the end of the file.
    bool next(proto::TraceChunk& chunk) {
        chunk_at_ = at_;
        if (left() == 0) return false;
        const std::uint64_t length = read_length();
        if (length > left())
            fail(fmt::format("a chunk of {} bytes, {} are left: the file is truncated or damaged", length, left()));
        if (length > kMaxTraceChunkBytes)
            fail(fmt::format("a chunk of {} bytes, expected at most {}", length, kMaxTraceChunkBytes));
        bytes_.resize(static_cast<std::size_t>(length));
        take(bytes_);
        if (!chunk.ParseFromString(bytes_)) fail("a damaged chunk");
        return true;
    }

private:
    void take(std::string& to) {
        in_.read(to.data(), static_cast<std::streamsize>(to.size()));
        if (static_cast<std::size_t>(in_.gcount()) != to.size()) fail("cannot read: the file ended early");
        at_ += to.size();
    }

    std::uint64_t read_length() {
        std::uint64_t length = 0;
        std::string byte(1, '\0');
        for (unsigned shift = 0; shift < 35; shift += 7) {
            if (left() == 0) fail("truncated in the length of a chunk");
            take(byte);
            const auto value = static_cast<unsigned char>(byte[0]);
            length |= static_cast<std::uint64_t>(value & 0x7FU) << shift;
            if (value < 0x80) return length;
        }
        fail("a damaged chunk length");
    }

    std::istream& in_;
    std::uint64_t size_, at_ = 0, chunk_at_ = 0;
    std::string_view origin_;
    std::string bytes_;  // reused
};

// The columns of a chunk must have one length: `count`, the first one's.
template <class... Columns>
bool same_size(int count, const Columns&... columns) {
    return ((columns.size() == count) && ...);
}

std::uint32_t minus_one(std::uint32_t stored) { return stored - 1U; }  // 0 becomes kNoOp or kNoRank

void decode(const proto::TraceProvenance& from, Provenance& to, const ChunkReader& in) {
    to.producer = from.producer();
    to.scenario = from.scenario();
    to.scenario_fingerprint = from.scenario_fingerprint();
    to.schedule_fingerprint = from.schedule_fingerprint();
    to.calibration = from.calibration();
    to.hardware = from.hardware();
    if (from.version_names_size() != from.version_values_size()) in.fail("header: columns of different lengths");
    for (int i = 0; i < from.version_names_size(); ++i)
        to.versions.emplace_back(from.version_names(i), from.version_values(i));
    to.omissions.assign(from.omissions().begin(), from.omissions().end());
}

void decode(const proto::TraceLanes& from, std::vector<TraceLane>& to, const ChunkReader& in) {
    const int count = from.rank_size();
    if (!same_size(count, from.role(), from.peer())) in.fail("lanes: columns of different lengths");
    to.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
        if (!proto::TraceLaneRole_IsValid(from.role(i)))
            in.fail(fmt::format("lane {}: unknown role {}", i, from.role().Get(i)));
        to.push_back({Rank{from.rank(i)}, static_cast<LaneRole>(from.role(i)), Rank{minus_one(from.peer(i))}});
    }
}

void decode(const proto::TracePools& from, std::vector<MemoryPool>& to, const ChunkReader& in) {
    const int count = from.owner_size();
    if (!same_size(count, from.host(), from.capacity(), from.arena(), from.peak_time(), from.peak_op(),
                   from.kind_count()) ||
        from.kind_label_size() != from.kind_bytes_size())
        in.fail("pools: columns of different lengths");
    int kind = 0;
    for (int i = 0; i < count; ++i) {
        MemoryPool pool{from.host(i),
                        from.owner(i),
                        Bytes{from.capacity(i)},
                        Bytes{from.arena(i)},
                        Seconds{from.peak_time(i)},
                        OpId{minus_one(from.peak_op(i))},
                        {}};
        if (from.kind_count(i) > static_cast<std::uint32_t>(from.kind_label_size() - kind))
            in.fail("pools: too few kinds");
        for (const int end = kind + static_cast<int>(from.kind_count(i)); kind < end; ++kind)
            pool.peak_kinds.emplace_back(from.kind_label(kind), Bytes{from.kind_bytes(kind)});
        to.push_back(std::move(pool));
    }
    if (kind != from.kind_label_size()) in.fail("pools: too many kinds");
}

// How many entries the header promises.
struct Counts {
    std::uint64_t events = 0, kernels = 0, memory = 0;
};

// Refuses counts that the rest of the file has no room for, before any room is made for them.
void check_counts(const Counts& counts, const ChunkReader& in) {
    std::uint64_t room = in.left();
    const std::pair<std::uint64_t, std::size_t> needs[] = {
        {counts.events, kMinEventBytes}, {counts.kernels, kMinKernelBytes}, {counts.memory, kMinMemoryBytes}};
    for (const auto& [count, bytes] : needs) {
        if (count > room / bytes)
            in.fail(fmt::format(
                "header: {} events, {} kernels and {} memory samples cannot follow in {} bytes: the file is "
                "truncated or damaged",
                counts.events, counts.kernels, counts.memory, in.left()));
        room -= count * bytes;
    }
}

Counts read_header(ChunkReader& in, proto::TraceChunk& chunk, Trace& trace) {
    if (!in.next(chunk)) in.fail("truncated before the header");
    if (!chunk.has_header()) in.fail("expected the header as the first chunk");
    const proto::TraceHeader& from = chunk.header();
    if (from.version() != kTraceVersion)
        in.fail(fmt::format("trace format version {}, expected {}", from.version(), kTraceVersion));
    const Counts counts{from.event_count(), from.kernel_count(), from.memory_count()};
    check_counts(counts, in);
    decode(from.provenance(), trace.provenance, in);
    trace.step = Seconds{from.step()};
    trace.labels.assign(from.labels().begin(), from.labels().end());
    decode(from.lanes(), trace.lanes, in);
    decode(from.pools(), trace.pools, in);
    return counts;
}

// Appends what a chunk holds to the trace, checking entry by entry.
struct Decoder {
    const ChunkReader& in;
    Trace& trace;
    TraceCheck check{trace};
    std::uint32_t op = static_cast<std::uint32_t>(kNoOp), event = 0;  // running sums of the delta columns

    void pass(std::string_view what, std::size_t i, const std::string& problem) const {
        if (!problem.empty()) in.fail(fmt::format("{} {}: {}", what, i, problem));
    }

    OpId blocker(const proto::TraceEvents& from, int i) const {
        if (from.blocker(i) == 0) return kNoOp;
        if (from.blocker(i) > std::int64_t{op} ||
            from.blocker(i) <= std::int64_t{op} - static_cast<std::int64_t>(kNoOp))
            in.fail(fmt::format("event {}: its blocker is no op id", trace.events.size()));
        return OpId{static_cast<std::uint32_t>(std::int64_t{op} - from.blocker(i))};
    }

    void operator()(const proto::TraceEvents& from) {
        const int count = from.op_size();
        if (!same_size(count, from.lane(), from.begin(), from.end(), from.blocker(), from.wait(), from.label(),
                       from.stage(), from.layer(), from.subsequence(), from.part(), from.bytes(), from.flow()))
            in.fail("events: columns of different lengths");
        for (int i = 0; i < count; ++i) {
            op += from.op(i);
            if (!proto::TraceWait_IsValid(from.wait(i)))
                in.fail(fmt::format("event {}: unknown wait {}", trace.events.size(), from.wait().Get(i)));
            const TraceEvent e{OpId{op},
                               from.lane(i),
                               Seconds{from.begin(i)},
                               Seconds{from.end(i)},
                               blocker(from, i),
                               static_cast<Wait>(from.wait(i)),
                               from.label(i),
                               from.stage(i),
                               from.layer(i),
                               from.subsequence(i),
                               from.part(i),
                               Bytes{from.bytes(i)},
                               from.flow(i)};
            pass("event", trace.events.size(), check.event(e));
            trace.events.push_back(e);
        }
    }

    void operator()(const proto::TraceKernels& from) {
        const int count = from.event_size();
        if (!same_size(count, from.label(), from.count(), from.begin(), from.end()))
            in.fail("kernels: columns of different lengths");
        for (int i = 0; i < count; ++i) {
            event += from.event(i);
            const KernelSpan k{event, from.label(i), from.count(i), Seconds{from.begin(i)}, Seconds{from.end(i)}};
            pass("kernel", trace.kernels.size(), check.kernel(k));
            trace.kernels.push_back(k);
        }
    }

    void operator()(const proto::TraceMemory& from) {
        const int count = from.pool_size();
        if (!same_size(count, from.time(), from.live())) in.fail("memory: columns of different lengths");
        for (int i = 0; i < count; ++i) {
            const MemorySample s{from.pool(i), Seconds{from.time(i)}, Bytes{from.live(i)}};
            pass("memory sample", trace.memory.size(), check.sample(s));
            trace.memory.push_back(s);
        }
    }
};

void read_chunks(ChunkReader& in, proto::TraceChunk& chunk, Trace& trace) {
    Decoder decode{in, trace};
    for (int last = proto::TraceChunk::kHeader; in.next(chunk); last = chunk.content_case()) {
        if (chunk.content_case() == proto::TraceChunk::CONTENT_NOT_SET) in.fail("a chunk of unknown content");
        if (chunk.has_header()) in.fail("a second header");
        if (chunk.content_case() < last) in.fail("chunks out of order: expected events, then kernels, then memory");
        if (chunk.has_events()) decode(chunk.events());
        if (chunk.has_kernels()) decode(chunk.kernels());
        if (chunk.has_memory()) decode(chunk.memory());
    }
}

Trace read(std::istream& stream, std::uint64_t size, std::string_view origin) {
    ChunkReader in(stream, size, origin);
    in.read_magic();
    Trace trace;
    proto::TraceChunk chunk;
    const Counts counts = read_header(in, chunk, trace);
    if (const std::string problem = TraceCheck(trace).header(); !problem.empty()) in.fail(problem);
    trace.events.reserve(counts.events);
    trace.kernels.reserve(counts.kernels);
    trace.memory.reserve(counts.memory);
    read_chunks(in, chunk, trace);
    if (trace.events.size() != counts.events || trace.kernels.size() != counts.kernels ||
        trace.memory.size() != counts.memory)
        in.fail(
            fmt::format("{} events, {} kernels and {} memory samples, the header promises {}, {} and {}: the file is "
                        "truncated or damaged",
                        trace.events.size(), trace.kernels.size(), trace.memory.size(), counts.events, counts.kernels,
                        counts.memory));
    return trace;
}

struct ViewBuffer : std::streambuf {
    explicit ViewBuffer(std::string_view bytes) {
        char* begin = const_cast<char*>(bytes.data());  // a get area is never written to
        setg(begin, begin, begin + bytes.size());
    }
};

}  // namespace

Trace parse_trace(std::string_view bytes, std::string_view origin) {
    ViewBuffer buffer(bytes);
    std::istream in(&buffer);
    return read(in, bytes.size(), origin);
}

Trace read_trace(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error))
        return parse_trace(read_file(path, kMaxUnsizedFile), path.string());
    const std::uint64_t size = std::filesystem::file_size(path, error);
    std::ifstream in(path, std::ios::binary);
    if (error || !in) throw InputError(fmt::format("{}: cannot open", path.string()));
    return read(in, size, path.string());
}

}  // namespace sluice

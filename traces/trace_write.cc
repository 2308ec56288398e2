#include <fmt/format.h>

#include <ostream>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "traces/trace.pb.h"
#include "traces/trace_check.h"
#include "traces/trace_file.h"
#include "traces/trace_format.h"

namespace sluice {
namespace {

// Writes chunks and counts nothing: the header already says how many entries follow.
struct ChunkWriter {
    std::ostream& out;
    std::string bytes = {};  // reused

    void operator()(const proto::TraceChunk& chunk) {
        chunk.SerializeToString(&bytes);
        SLUICE_CHECK(bytes.size() <= kMaxTraceChunkBytes, "a trace chunk is too long; too many labels");
        std::uint64_t length = bytes.size();
        std::string prefix;
        for (; length >= 0x80; length >>= 7) prefix.push_back(static_cast<char>((length & 0x7F) | 0x80));
        prefix.push_back(static_cast<char>(length));
        out.write(prefix.data(), static_cast<std::streamsize>(prefix.size()));
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
};

void encode(const Provenance& from, proto::TraceProvenance& to) {
    to.set_producer(from.producer);
    to.set_scenario(from.scenario);
    to.set_scenario_fingerprint(from.scenario_fingerprint);
    to.set_schedule_fingerprint(from.schedule_fingerprint);
    to.set_calibration(from.calibration);
    to.set_hardware(from.hardware);
    for (const auto& [name, version] : from.versions) {
        to.add_version_names(name);
        to.add_version_values(version);
    }
    for (const std::string& omission : from.omissions) to.add_omissions(omission);
}

// kNoOp and kNoRank are the largest uint32, so that adding one makes them 0.
std::uint32_t plus_one(std::uint32_t id) { return id + 1U; }

void encode(const std::vector<TraceLane>& from, proto::TraceLanes& to) {
    for (const TraceLane& lane : from) {
        to.add_rank(static_cast<std::uint32_t>(lane.rank));
        to.add_role(static_cast<proto::TraceLaneRole>(lane.role));
        to.add_peer(plus_one(static_cast<std::uint32_t>(lane.peer)));
    }
}

void encode(const std::vector<MemoryPool>& from, proto::TracePools& to) {
    for (const MemoryPool& pool : from) {
        to.add_host(pool.host);
        to.add_owner(pool.owner);
        to.add_capacity(pool.capacity.value);
        to.add_arena(pool.arena.value);
        to.add_peak_time(pool.peak_time.value);
        to.add_peak_op(plus_one(static_cast<std::uint32_t>(pool.peak_op)));
        to.add_kind_count(static_cast<std::uint32_t>(pool.peak_kinds.size()));
        for (const auto& [label, bytes] : pool.peak_kinds) {
            to.add_kind_label(label);
            to.add_kind_bytes(bytes.value);
        }
    }
}

void encode(const Trace& from, proto::TraceHeader& to) {
    to.set_version(kTraceVersion);
    encode(from.provenance, *to.mutable_provenance());
    to.set_step(from.step.value);
    for (const std::string& label : from.labels) to.add_labels(label);
    to.set_event_count(from.events.size());
    to.set_kernel_count(from.kernels.size());
    to.set_memory_count(from.memory.size());
    encode(from.lanes, *to.mutable_lanes());
    encode(from.pools, *to.mutable_pools());
}

void add(proto::TraceEvents& to, const TraceEvent& e, OpId last) {
    const auto op = static_cast<std::uint32_t>(e.op);
    to.add_op(op - static_cast<std::uint32_t>(last));  // from kNoOp, the largest uint32: op + 1
    to.add_lane(e.lane);
    to.add_begin(e.begin.value);
    to.add_end(e.end.value);
    const auto distance = static_cast<std::int64_t>(op) - static_cast<std::int64_t>(index(e.blocker));
    to.add_blocker(e.blocker == kNoOp ? 0 : distance);
    to.add_wait(static_cast<proto::TraceWait>(e.wait));
    to.add_label(e.label);
    to.add_stage(e.stage);
    to.add_layer(e.layer);
    to.add_subsequence(e.subsequence);
    to.add_part(e.part);
    to.add_bytes(e.bytes.value);
    to.add_flow(e.flow);
}

// Calls `encode_one(i)` for every entry and writes a chunk after each kTraceChunkEntries of them.
template <class EncodeOne>
void write_chunks(std::size_t count, proto::TraceChunk& chunk, ChunkWriter& write, EncodeOne encode_one) {
    for (std::size_t i = 0; i < count; ++i) {
        encode_one(i);
        if (i + 1 < count && (i + 1) % kTraceChunkEntries != 0) continue;
        write(chunk);
    }
}

void write_events(const Trace& trace, ChunkWriter& write) {
    proto::TraceChunk chunk;
    OpId last = kNoOp;
    write_chunks(trace.events.size(), chunk, write, [&](std::size_t i) {
        if (i % kTraceChunkEntries == 0) chunk.mutable_events()->Clear();
        add(*chunk.mutable_events(), trace.events[i], std::exchange(last, trace.events[i].op));
    });
}

void write_kernels(const Trace& trace, ChunkWriter& write) {
    proto::TraceChunk chunk;
    std::uint32_t last = 0;
    write_chunks(trace.kernels.size(), chunk, write, [&](std::size_t i) {
        proto::TraceKernels& to = *chunk.mutable_kernels();
        if (i % kTraceChunkEntries == 0) to.Clear();
        const KernelSpan& k = trace.kernels[i];
        to.add_event(k.event - std::exchange(last, k.event));
        to.add_label(k.label);
        to.add_count(k.count);
        to.add_begin(k.begin.value);
        to.add_end(k.end.value);
    });
}

void write_memory(const Trace& trace, ChunkWriter& write) {
    proto::TraceChunk chunk;
    write_chunks(trace.memory.size(), chunk, write, [&](std::size_t i) {
        proto::TraceMemory& to = *chunk.mutable_memory();
        if (i % kTraceChunkEntries == 0) to.Clear();
        to.add_pool(trace.memory[i].pool);
        to.add_time(trace.memory[i].time.value);
        to.add_live(trace.memory[i].live.value);
    });
}

}  // namespace

void write_trace(std::ostream& out, const Trace& trace) {
    const std::string problem = check_trace(trace);
    SLUICE_CHECK(problem.empty(), "a trace to be written breaks its own rules: " + problem);
    out.write(kTraceMagic.data(), static_cast<std::streamsize>(kTraceMagic.size()));
    ChunkWriter write{out};
    proto::TraceChunk header;
    encode(trace, *header.mutable_header());
    write(header);
    write_events(trace, write);
    write_kernels(trace, write);
    write_memory(trace, write);
}

void write_trace(const std::filesystem::path& path, const Trace& trace) {
    write_file(path, [&](std::ostream& out) { write_trace(out, trace); });
}

}  // namespace sluice
